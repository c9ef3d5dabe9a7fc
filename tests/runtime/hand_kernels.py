"""Kernels written by hand in LLVM IR, and plans of items that name them: what the runtime tests run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from renaissance.ir.dtype import DType, int64
from renaissance.ir.plan import Buffer, Item, Nest, Operand, Plan
from renaissance.kernels.host import detect
from renaissance.kernels.lowered import Lowered
from renaissance.runtime.assemble import assemble
from renaissance.runtime.executable import Executable
from renaissance.runtime.jit import Source, compiler

TARGET = detect()
NOTHING = Nest("row", (1,), ())

TEXTS = {
    # slots (to, from, elements per chunk, added): to[i] = from[i] + added, over one chunk's elements
    "add": """
define void @add(ptr %args, i64 %chunk, ptr %scratch) {
entry:
  %to = load ptr, ptr %args
  %from.at = getelementptr i64, ptr %args, i64 1
  %from = load ptr, ptr %from.at
  %n.at = getelementptr i64, ptr %args, i64 2
  %n = load i64, ptr %n.at
  %more.at = getelementptr i64, ptr %args, i64 3
  %more = load i64, ptr %more.at
  %start = mul i64 %chunk, %n
  %none = icmp eq i64 %n, 0
  br i1 %none, label %out, label %turn
turn:
  %i = phi i64 [0, %entry], [%i1, %turn]
  %at = add i64 %start, %i
  %p = getelementptr i64, ptr %from, i64 %at
  %v = load i64, ptr %p
  %w = add i64 %v, %more
  %q = getelementptr i64, ptr %to, i64 %at
  store i64 %w, ptr %q
  %i1 = add i64 %i, 1
  %go = icmp ult i64 %i1, %n
  br i1 %go, label %turn, label %out
out:
  ret void
}""",
    # slots (error word, from, message + 1): fails unless every chunk's element is positive
    "check": """
define void @check(ptr %args, i64 %chunk, ptr %scratch) {
entry:
  %word = load ptr, ptr %args
  %from.at = getelementptr i64, ptr %args, i64 1
  %from = load ptr, ptr %from.at
  %n.at = getelementptr i64, ptr %args, i64 2
  %n = load i64, ptr %n.at
  %p = getelementptr i64, ptr %from, i64 %chunk
  %v = load i64, ptr %p
  %good = icmp sgt i64 %v, 0
  br i1 %good, label %out, label %bad
bad:
  %r = cmpxchg ptr %word, i64 0, i64 %n seq_cst seq_cst
  br label %out
out:
  ret void
}""",
    # slots (to, turns): spins, then counts itself in to[chunk]
    "spin": """
declare void @llvm.x86.sse2.pause()
define void @spin(ptr %args, i64 %chunk, ptr %scratch) {
entry:
  %to = load ptr, ptr %args
  %n.at = getelementptr i64, ptr %args, i64 1
  %n = load i64, ptr %n.at
  br label %turn
turn:
  %i = phi i64 [0, %entry], [%i1, %body]
  %go = icmp ult i64 %i, %n
  br i1 %go, label %body, label %out
body:
  call void @llvm.x86.sse2.pause()
  %i1 = add i64 %i, 1
  br label %turn
out:
  %p = getelementptr i64, ptr %to, i64 %chunk
  %v = load i64, ptr %p
  %w = add i64 %v, 1
  store i64 %w, ptr %p
  ret void
}""",
    # slots (to, bytes): fills the thread's scratch with the chunk's number, looks at it again, stores how much was changed
    "scratch": """
define void @scratch(ptr %args, i64 %chunk, ptr %scratch) {
entry:
  %to = load ptr, ptr %args
  %n.at = getelementptr i64, ptr %args, i64 1
  %n = load i64, ptr %n.at
  br label %fill
fill:
  %i = phi i64 [0, %entry], [%i1, %fill]
  %p = getelementptr i64, ptr %scratch, i64 %i
  store volatile i64 %chunk, ptr %p
  %i1 = add i64 %i, 1
  %go = icmp ult i64 %i1, %n
  br i1 %go, label %fill, label %look
look:
  %j = phi i64 [0, %fill], [%j1, %look]
  %bad = phi i64 [0, %fill], [%bad1, %look]
  %q = getelementptr i64, ptr %scratch, i64 %j
  %v = load volatile i64, ptr %q
  %other = icmp ne i64 %v, %chunk
  %one = zext i1 %other to i64
  %bad1 = add i64 %bad, %one
  %j1 = add i64 %j, 1
  %more = icmp ult i64 %j1, %n
  br i1 %more, label %look, label %out
out:
  %r = getelementptr i64, ptr %to, i64 %chunk
  store i64 %bad1, ptr %r
  ret void
}""",
    # slots (to): the address of the scratch of the thread that ran the chunk, after a while
    "place": """
declare void @llvm.x86.sse2.pause()
define void @place(ptr %args, i64 %chunk, ptr %scratch) {
entry:
  br label %turn
turn:
  %i = phi i64 [0, %entry], [%i1, %turn]
  call void @llvm.x86.sse2.pause()
  %i1 = add i64 %i, 1
  %go = icmp ult i64 %i1, 10000
  br i1 %go, label %turn, label %out
out:
  %to = load ptr, ptr %args
  %p = getelementptr i64, ptr %to, i64 %chunk
  %place = ptrtoint ptr %scratch to i64
  store i64 %place, ptr %p
  ret void
}""",
    # slots (to): the control word of the floating-point unit
    "control": """
declare void @llvm.x86.sse.stmxcsr(ptr)
define void @control(ptr %args, i64 %chunk, ptr %scratch) {
  %word = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %word)
  %c = load i32, ptr %word
  %d = zext i32 %c to i64
  %to = load ptr, ptr %args
  %p = getelementptr i64, ptr %to, i64 %chunk
  store i64 %d, ptr %p
  ret void
}""",
}


def address(name: str) -> int:
    """The kernel's address."""
    return compiler().load([Source(f"hand {name}\n{TEXTS[name]}", name, lambda: TEXTS[name])], TARGET)[0]


class Hand:
    """Collects buffers and items; `link` makes them an Executable."""

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []
        self.items: list[Item] = []
        self.kernels: list[Lowered] = []
        self.addresses: list[int] = []
        self.arena_bytes = 0

    def buffer(self, place: str, elements: int) -> int:
        """A buffer of int64; its number."""
        index = sum(b.place == place for b in self.buffers) if place != "arena" else -1
        offset = self.arena_bytes if place == "arena" else 0
        if place == "arena":
            self.arena_bytes += -(-8 * elements // 64) * 64
        self.buffers.append(Buffer(place, index, offset, 8 * elements, int64, (elements,)))
        return len(self.buffers) - 1

    def item(self, name: str, operands: Sequence[tuple[int, str]], slots: Sequence[tuple], chunks: int = 1, *, scratch: int = 0,
             flops: int = 0, moved: int = 0, kernel: str | None = None) -> None:
        """An item that calls a hand-written kernel; operands are (buffer, mode)."""
        made = tuple(Operand(b, int64, mode) for b, mode in operands)
        self.items.append(Item(name, NOTHING, made, flops=flops, bytes=moved))
        self.kernels.append(Lowered(name, name, None, tuple(slots), chunks, scratch))  # type: ignore[arg-type]
        self.addresses.append(address(kernel or name))

    def add(self, source: int, target: int, each: int, more: int = 1, chunks: int = 1) -> None:
        """An item target = source + more."""
        slots = [("operand", 1, 0), ("operand", 0, 0), ("int", each), ("int", more)]
        self.item("add", [(source, "in"), (target, "out")], slots, chunks)

    def check(self, source: int, message: int, chunks: int) -> None:
        """An item that fails unless the elements are positive."""
        self.item("check", [(source, "in")], [("error",), ("operand", 0, 0), ("int", message + 1)], chunks)

    def spin(self, target: int, turns: int, chunks: int = 1) -> None:
        """An item that takes its time and adds 1 to its elements."""
        self.item("spin", [(target, "out")], [("operand", 0, 0), ("int", turns)], chunks)

    def plan(self, outputs: Sequence[int] = (), *, scalars: Sequence[DType] = (), commit: int | None = None,
             messages: Sequence[str] = (), copies: Sequence[tuple[int, int]] = ()) -> Plan:
        """The plan of all that was collected."""
        return Plan(
            tuple(self.items), tuple(self.buffers), tuple(scalars), tuple(outputs), self.arena_bytes,
            len(self.items) if commit is None else commit, tuple(messages), (), tuple(copies),
        )

    def link(self, plan: Plan, threads: int) -> Executable:
        """The plan made ready."""
        return assemble(plan, self.kernels, self.addresses, TARGET, threads)


def at(array: np.ndarray) -> int:
    """The address of an array's bytes."""
    return array.ctypes.data
