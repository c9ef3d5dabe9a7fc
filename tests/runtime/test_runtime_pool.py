"""The native threads: every chunk runs once, nothing hangs, forks and exits are clean."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hand_kernels import Hand, at

from renaissance.runtime.pool import Pool

THREADS = (1, 2, 3, 7)
HERE = Path(__file__).parent


def counting(threads, chunk_counts, turns=0):
    """An executable with an item for each chunk count, which adds 1 to that many elements of its own output; and the outputs."""
    hand = Hand()
    arrays = [np.zeros(max(1, chunks), np.int64) for chunks in chunk_counts]
    for chunks, array in zip(chunk_counts, arrays):
        hand.spin(hand.buffer("output", array.size), turns, chunks)
    executable = hand.link(hand.plan(range(len(arrays))), threads)
    return executable, arrays


def run_python(code, timeout=60):
    """Run code in a process of its own, with this folder's modules at hand."""
    path = os.pathsep.join([str(HERE), str(HERE.parent.parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, timeout=timeout, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("threads", THREADS)
def test_every_chunk_runs_exactly_once(threads):
    rng = np.random.default_rng(threads)
    chunk_counts = [0, 1, 2, 3, 64, 1000, *rng.integers(1, 40, 40).tolist()]
    executable, arrays = counting(threads, chunk_counts, turns=3)
    runs = 50
    for _ in range(runs):
        executable.run((), [at(a) for a in arrays])
    for chunks, array in zip(chunk_counts, arrays):
        assert (array[:chunks] == runs).all()


@pytest.mark.parametrize("threads", THREADS)
def test_an_item_sees_all_that_earlier_items_wrote(threads):
    hand = Hand()
    chain = [hand.buffer("input", 96), *(hand.buffer("arena", 96) for _ in range(60)), hand.buffer("output", 96)]
    for number, (source, target) in enumerate(zip(chain, chain[1:])):
        chunks = (1, 2, 96, 8)[number % 4]
        hand.add(source, target, 96 // chunks, more=number, chunks=chunks)
    executable = hand.link(hand.plan([chain[-1]]), threads)
    x, y = np.arange(96), np.zeros(96, np.int64)
    for _ in range(100):
        y[:] = -1
        executable.run((at(x),), (at(y),))
        assert (y == x + sum(range(61))).all()


def test_workers_take_part():
    hand = Hand()
    out = hand.buffer("output", 200)
    hand.item("place", [(out, "out")], [("operand", 0, 0)], 200)
    places = np.zeros(200, np.int64)
    hand.link(hand.plan([out]), 3).run((), (at(places),))
    assert 2 <= len(set(places.tolist())) <= 3


@pytest.mark.parametrize("threads", THREADS)
def test_scratch_is_private_to_a_thread(threads):
    hand = Hand()
    out = hand.buffer("output", 200)
    hand.item("scratch", [(out, "out")], [("operand", 0, 0), ("int", 1000)], 200, scratch=8000)
    bad = np.full(200, -1)
    hand.link(hand.plan([out]), threads).run((), (at(bad),))
    assert (bad == 0).all()


def test_scratch_may_grow_between_plans():
    for size in (10, 100_000, 1000):
        hand = Hand()
        out = hand.buffer("output", 20)
        hand.item("scratch", [(out, "out")], [("operand", 0, 0), ("int", size)], 20, scratch=8 * size)
        bad = np.full(20, -1)
        hand.link(hand.plan([out]), 3).run((), (at(bad),))
        assert (bad == 0).all()


@pytest.mark.parametrize("threads", [1, 7])
def test_all_threads_compute_in_standard_floating_point(threads):
    hand = Hand()
    out = hand.buffer("output", 500)
    hand.item("control", [(out, "out")], [("operand", 0, 0)], 500)
    words = np.zeros(500, np.int64)
    hand.link(hand.plan([out]), threads).run((), (at(words),))
    assert (words & ~0x3F == 0x1F80).all()  # the low six bits are sticky flags


def test_python_threads_take_turns_and_all_get_their_own_results():
    def work(number, failures):
        hand = Hand()
        source, result = hand.buffer("input", 64), hand.buffer("output", 64)
        hand.add(source, result, 4, more=number, chunks=16)
        executable = hand.link(hand.plan([result]), 1 + number % 3)
        x, y = np.arange(64), np.zeros(64, np.int64)
        for _ in range(200):
            y[:] = 0
            executable.run((at(x),), (at(y),))
            if (y != x + number).any():
                failures.append(number)

    failures = []
    workers = [threading.Thread(target=work, args=(number, failures)) for number in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures


def test_idle_threads_use_no_cpu():
    executable, (array,) = counting(7, [50], turns=100)
    executable.run((), [at(array)])
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.05


def test_a_plan_of_single_chunks_starts_no_thread():
    result = run_python(
        "import os, numpy as np\n"
        "from hand_kernels import Hand, at\n"
        "from renaissance.runtime.pool import pool\n"
        "hand = Hand(); out = hand.buffer('output', 8); hand.spin(out, 5); y = np.zeros(8, np.int64)\n"
        "before = len(os.listdir('/proc/self/task'))\n"
        "hand.link(hand.plan([out]), 4).run((), (at(y),))\n"
        "assert y[0] == 1 and not pool(4).started and len(os.listdir('/proc/self/task')) == before\n"
    )
    assert result.returncode == 0, result.stderr


FORK = """
import os, sys, threading
import numpy as np
from hand_kernels import Hand, at
hand = Hand()
source, result = hand.buffer('input', 640), hand.buffer('output', 640)
hand.add(source, result, 10, chunks=64)
executable = hand.link(hand.plan([result]), 3)
x, y = np.arange(640), np.zeros(640, np.int64)

def check():
    for _ in range(50):
        y[:] = 0
        executable.run((at(x),), (at(y),))
        assert (y == x + 1).all()

check()
"""


def test_a_forked_child_has_a_pool_of_its_own():
    result = run_python(FORK + """
for _ in range(5):
    child = os.fork()
    if child == 0:
        check()
        os._exit(17)
    check()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17
""")
    assert result.returncode == 0, result.stderr


def test_a_fork_while_another_thread_runs_plans():
    result = run_python(FORK + """
stop = threading.Event()
def other():
    z = np.zeros(640, np.int64)
    while not stop.is_set():
        executable.run((at(x),), (at(z),))
thread = threading.Thread(target=other)
thread.start()
for _ in range(10):
    child = os.fork()
    if child == 0:
        check()
        os._exit(17)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17
stop.set()
thread.join()
""")
    assert result.returncode == 0, result.stderr


def test_exit_ends_the_threads_also_while_a_daemon_thread_runs_plans():
    began = time.perf_counter()
    result = run_python(FORK + """
def other():
    z = np.zeros(640, np.int64)
    while True:
        executable.run((at(x),), (at(z),))
threading.Thread(target=other, daemon=True).start()
check()
print('end')
""")
    assert result.returncode == 0 and result.stdout == "end\n", result.stderr
    assert time.perf_counter() - began < 30


def test_stop_joins_the_threads_and_work_goes_on_without_them():
    own = Pool(3)
    own.prepare(0, True)
    assert own.started and len(own._workers) == 2
    own.stop()
    assert not own._workers
