"""Runs of linked plans: binding, checks, commit, copies, host items, interruption, refusals."""

import os
import signal
import threading
import time

import ml_dtypes
import numpy as np
import pytest
from hand_kernels import Hand, at

from renaissance.errors import ArgumentError, NonFiniteError, PlanError, RangeError
from renaissance.ir.dtype import ALL, bfloat16, float16, float32, int8, int64, uint64
from renaissance.ir.plan import Host, Item, Operand
from renaissance.runtime import host_call
from renaissance.runtime.executable import Executable
from renaissance.runtime.values import Values


def test_inputs_and_outputs_may_move_between_runs():
    hand = Hand()
    source, result = hand.buffer("input", 8), hand.buffer("output", 8)
    hand.add(source, result, 8)
    executable = hand.link(hand.plan([result]), 1)
    for number in range(4):
        x, y = np.full(8, number), np.zeros(8, np.int64)
        executable.run((at(x),), (at(y),))
        assert (y == number + 1).all()


def test_byte_offsets_and_scalars_reach_the_kernel():
    hand = Hand()
    source, result = hand.buffer("input", 8), hand.buffer("output", 8)
    slots = [("operand", 1, 8), ("operand", 0, 16), ("int", 4), ("scalar", 1, int64)]
    hand.item("add", [(source, "in"), (result, "out")], slots)
    executable = hand.link(hand.plan([result], scalars=[float32, int64]), 1)
    x, y = np.arange(8), np.zeros(8, np.int64)
    executable.run((at(x),), (at(y),), (0.5, -100))
    assert y.tolist() == [0, -98, -97, -96, -95, 0, 0, 0]


def test_a_float_slot_holds_a_float64():
    hand = Hand()
    result = hand.buffer("output", 1)
    zero = hand.buffer("input", 1)
    hand.item("add", [(zero, "in"), (result, "out")], [("operand", 1, 0), ("operand", 0, 0), ("int", 1), ("float", -1.5)])
    x, y = np.zeros(1, np.int64), np.zeros(1, np.int64)
    hand.link(hand.plan([result]), 1).run((at(x),), (at(y),))
    assert y.view(np.float64)[0] == -1.5


@pytest.mark.parametrize("dtype", ALL, ids=lambda d: d.name)
def test_scalars_are_converted_as_numpy_converts_them(dtype):
    value = 3 if not dtype.is_float else 1 / 3
    values = Values(1, 1, [dtype, dtype])
    values.put((5,), (None,), (value, 1))
    expected = [np.array(v).astype(dtype.numpy).tobytes().ljust(8, b"\0") for v in (value, 1)]
    assert [values[n] for n in range(2)] == [5, 0]
    assert [values[n].to_bytes(8, "little") for n in (2, 3)] == expected


def test_scalars_out_of_range():
    values = Values(0, 0, [float32, float16, bfloat16])
    values.put((), (), (1e300, -1e300, 1e300))
    assert np.array([values[0]], np.uint64).view(np.float32)[0] == np.inf
    assert np.array([values[1]], np.uint64).view(np.float16)[0] == -np.inf
    assert np.array([values[2]], np.uint64).view(ml_dtypes.bfloat16)[0] == np.inf
    for dtype, value in ((int8, 128), (uint64, -1), (int64, 1 << 63)):
        with pytest.raises(ArgumentError, match=dtype.name):
            Values(0, 0, [dtype]).put((), (), (value,))


def test_a_wrong_number_of_values_is_named():
    values = Values(2, 1, [float32])
    with pytest.raises(PlanError, match=r"got \(1, 1, 1\).*\(2, 1, 1\)"):
        values.put((1,), (1,), (1.0,))


def stateful(threads, chunks=8):
    """check(input 0); scratch = input 0 + 1; commit: input 1 = scratch + 1; message 0 for the check."""
    hand = Hand()
    source, state, middle = hand.buffer("input", 64), hand.buffer("input", 64), hand.buffer("arena", 64)
    hand.check(source, 0, 64)
    hand.add(source, middle, 64 // chunks, chunks=chunks)
    hand.add(middle, state, 64 // chunks, chunks=chunks)
    return hand.link(hand.plan(commit=2, messages=["NonFiniteError: step: loss is not finite"]), threads)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_a_failed_check_raises_its_class_and_leaves_state_alone(threads):
    executable = stateful(threads)
    x, state = np.arange(1, 65), np.zeros(64, np.int64)
    for bad in (None, 0, 33, 63, None):
        y = x.copy()
        state[:] = 0
        if bad is None:
            executable.run((at(y), at(state)), ())
            assert (state == x + 2).all()
        else:
            y[bad] = -5
            with pytest.raises(NonFiniteError, match="^step: loss is not finite$"):
                executable.run((at(y), at(state)), ())
            assert (state == 0).all()


def test_a_check_in_the_last_item_is_seen_and_the_default_class_is_range_error():
    hand = Hand()
    source = hand.buffer("input", 4)
    hand.check(source, 1, 4)
    executable = hand.link(hand.plan(messages=["unused", "index 9 is outside"]), 2)
    x = np.array([1, 1, 0, 1])
    with pytest.raises(RangeError, match="index 9 is outside"):
        executable.run((at(x),), ())
    x[:] = 1
    executable.run((at(x),), ())


def test_copies_complete_state_and_deliver_outputs_kept_elsewhere():
    n = 100_000  # several pieces
    hand = Hand()
    state, other, middle = hand.buffer("input", n), hand.buffer("input", n), hand.buffer("arena", n)
    hand.add(state, middle, n)
    executable = hand.link(hand.plan([middle, other, other], copies=[(middle, state)]), 2)
    x, z, y, w = np.arange(n), np.arange(n) * 3, np.zeros(n, np.int64), np.zeros(n, np.int64)
    executable.run((at(x), at(z)), (at(y), at(w), None))
    assert (x == np.arange(n) + 1).all() and (y == x).all() and (w == z).all()


def test_a_copy_from_what_a_copy_overwrote_is_refused():
    hand = Hand()
    first, second, middle = hand.buffer("input", 8), hand.buffer("input", 8), hand.buffer("arena", 8)
    hand.add(first, middle, 8)
    with pytest.raises(PlanError, match="copied after it was overwritten"):
        hand.link(hand.plan(copies=[(middle, first), (first, second)]), 1)


def host_plan(function, threads=2):
    """middle = input + 1; host: other = function(middle); output = other + 1."""
    host_call.register("test_host", function)
    hand = Hand()
    source, middle, other, result = (hand.buffer(p, 8) for p in ("input", "arena", "arena", "output"))
    hand.add(source, middle, 4, chunks=2)
    host = Item("host", Host("test_host", (3,), (0,), (1,)), (Operand(middle, int64, "in"), Operand(other, int64, "out")))
    hand.items.append(host)
    hand.add(other, result, 4, chunks=2)
    return hand.link(hand.plan([result]), threads)


def test_host_items_run_between_native_parts():
    executable = host_plan(lambda arrays, factor, out: arrays[0] * factor)
    x, y = np.arange(8), np.zeros(8, np.int64)
    for _ in range(3):
        executable.run((at(x),), (at(y),))
        assert (y == (x + 1) * 3 + 1).all()


def test_host_functions_cannot_write_their_inputs_and_their_errors_pass_through():
    def greedy(arrays, factor, out):
        arrays[0][0] = 1

    executable = host_plan(greedy)
    x, y = np.arange(8), np.zeros(8, np.int64)
    with pytest.raises(ValueError, match="read-only"):
        executable.run((at(x),), (at(y),))


def test_a_plan_inside_a_plan_is_refused_and_the_turn_is_given_back():
    x, y = np.arange(8), np.zeros(8, np.int64)

    def nested(arrays, factor, out):
        executable.run((at(x),), (at(y),))

    executable: Executable = host_plan(nested)
    for _ in range(2):
        with pytest.raises(PlanError, match="inside a host function"):
            executable.run((at(x),), (at(y),))


def test_an_unknown_host_op_is_refused():
    hand = Hand()
    hand.items.append(Item("host", Host("nobody", (), (), ()), ()))
    with pytest.raises(PlanError, match="'nobody' has no function"):
        hand.link(hand.plan(), 1)


def long_plan(threads, before, after):
    """A plan predicted to be long: `before` items of about 1 ms, then `after` of them that count themselves in state."""
    hand = Hand()
    middle, state = hand.buffer("arena", 64), hand.buffer("input", 64)
    for _ in range(before):
        hand.spin(middle, 15_000, 4)
    for _ in range(after):
        hand.spin(state, 15_000, 4)
    hand.items[0] = Item("long", hand.items[0].spec, hand.items[0].operands, flops=10**12)
    executable = hand.link(hand.plan(commit=before), threads)
    assert executable.predicted_s > 0.05
    return executable


@pytest.mark.parametrize("threads", [1, 3])
def test_a_long_plan_gives_its_results(threads):
    executable, state = long_plan(threads, 2, 3), np.zeros(64, np.int64)
    for run in range(1, 4):
        executable.run((at(state),), ())
        assert state[:4].tolist() == [3 * run] * 4


def interrupted_run(executable, state, after_s):
    timer = threading.Timer(after_s, os.kill, (os.getpid(), signal.SIGINT))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored where tests run in the background
    try:
        timer.start()
        began = time.perf_counter()
        with pytest.raises(KeyboardInterrupt):
            executable.run((at(state),), ())
        timer.join()
        return time.perf_counter() - began
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interrupt_before_the_commit_point_stops_the_plan_and_writes_nothing():
    executable, state = long_plan(2, 20_000, 5), np.zeros(64, np.int64)
    assert interrupted_run(executable, state, 0.1) < 10
    assert (state == 0).all()


def test_an_interrupt_after_the_commit_point_lets_the_plan_finish():
    executable, state = long_plan(2, 1, 200), np.zeros(64, np.int64)
    interrupted_run(executable, state, 0.1)
    assert state[:4].tolist() == [200] * 4
    executable.run((at(state),), ())
    assert state[:4].tolist() == [400] * 4
