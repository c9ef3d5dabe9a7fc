"""link with the real lowering; turns; platforms."""

import threading
import time

import numpy as np
import pytest
from hand_kernels import TARGET, at

from renaissance.errors import DeviceError, PlanError
from renaissance.ir.dtype import float32
from renaissance.ir.plan import Access, Buffer, Instr, Item, Nest, Operand, Plan, Stage, Store
from renaissance.runtime import jit, libc
from renaissance.runtime.link import link
from renaissance.runtime.turn import Turn


def scaled_sum(n):
    """out = a * scalar + b."""
    def load(operand):
        return Instr("load", (), Access(operand, (1,)), float32)

    body = (
        load(0), Instr("scalar", (), 0, float32), Instr("mul", (0, 1), None, float32), load(1),
        Instr("add", (2, 3), None, float32),
    )
    operands = (Operand(0, float32, "in"), Operand(1, float32, "in"), Operand(2, float32, "out"))
    item = Item("scaled_sum", Nest("row", (n,), (Stage("map", body, (Store(Access(2, (1,)), 4),)),)), operands)
    buffers = tuple(Buffer(place, index, 0, 4 * n, float32, (n,)) for place, index in (("input", 0), ("input", 1), ("output", 0)))
    return Plan((item,), buffers, (float32,), (2,), 0, 1, ())


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("n", [1, 37, 1 << 18])
def test_link_runs_a_lowered_item(threads, n):
    executable = link(scaled_sum(n), TARGET, threads)
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, n), np.float32)
    out = np.empty(n, np.float32)
    for scalar in (2.5, -1.0):
        executable.run((at(a), at(b)), (at(out),), (scalar,))
        assert (out == a * np.float32(scalar) + b).all()


def test_linking_again_compiles_nothing():
    link(scaled_sum(64), TARGET, 2)
    before = jit.compiler().compiled
    link(scaled_sum(65), TARGET, 2)
    assert jit.compiler().compiled == before


def test_turns_are_served_in_the_order_of_asking():
    turn, served, waiters = Turn(), [], []

    def wait(number):
        turn.take(threading.get_ident())
        served.append(number)
        turn.leave(threading.get_ident())

    me = threading.get_ident()
    turn.take(me)
    for number in range(8):
        waiters.append(threading.Thread(target=wait, args=(number,)))
        waiters[-1].start()
        while len(turn._queue) <= number:
            time.sleep(0.001)
    turn.leave(me)
    for waiter in waiters:
        waiter.join()
    assert served == list(range(8)) and turn.owner == 0


def test_leaving_without_a_turn_does_nothing_and_nesting_is_refused():
    turn = Turn()
    turn.take(1)
    turn.leave(2)
    assert turn.owner == 1
    turn.refuse_nested(2)
    with pytest.raises(PlanError, match="inside"):
        turn.refuse_nested(1)
    turn.leave(1)
    assert turn.owner == 0


@pytest.mark.parametrize(("system", "machine"), [("linux", "aarch64"), ("darwin", "x86_64")])
def test_other_platforms_are_named(monkeypatch, system, machine):
    monkeypatch.setattr(libc.sys, "platform", system)
    monkeypatch.setattr(libc.platform, "machine", lambda: machine)
    with pytest.raises(DeviceError, match=f"{system} {machine}"):
        libc.library.__wrapped__()
