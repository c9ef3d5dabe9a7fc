"""The native half of the runtime, as LLVM IR: the threads of a pool and the driver that walks a plan's table.

One thread, the *driver*, walks the table. An item of one chunk it runs itself. For an item of many chunks it publishes
function, argument block and chunk count; it and any workers that are awake then claim chunks from one counter. The driver
goes on when all chunks are done; it never waits for a worker that has claimed none, so a worker that sleeps or has lost its
CPU costs nothing.

The counter ("ticket") is one 64-bit word: the item's chunk count in the high half, the next chunk in the low half. Adding 1
claims the old low half if that is below the old high half. A worker that comes late thus claims a chunk of whatever item is
open at that moment or none, and an item's fields cannot change while a claimed chunk of it has not been reported: the driver
is still waiting for it. Workers report once per item, when a claim fails.

Both sides spin for a while, then park on a futex. Parking is announced (`sleepers`, `waiting`) before the last look at the word
waited for, and the other side writes that word before it looks for announcements, both sequentially consistent, so no wake-up
is lost. Woken workers are taken off `sleepers` by the waker; the count may be too high (a wasted system call), never too low.
"""

from __future__ import annotations

from renaissance.ir.target import Target

BASELINE = Target(isa="sse", vector_bytes=16, registers=16, bf16_dot=False, fma=False, cpu="x86-64", features="")
TABLE = "driver"  # the one symbol exported: the addresses of FUNCTIONS
FUNCTIONS = ("walk", "worker", "runner", "copy")

# Byte offsets in a pool's state; words that different threads write lie on different cache lines.
TICKET = 0
FUNCTION = 64
ARGUMENTS = 72
DONE = 128
WAITING = 132
EPOCH = 192
SLEEPERS = 196
STOP = 200
SPIN_NS = 256
SCRATCH = 264
SCRATCH_STRIDE = 272
WORKERS = 280
RUN_EPOCH = 320
RUN_ORDER = 328
RUN_RESULT = 336
RUN_EVENT = 344
STATE_BYTES = 384

# Byte offsets in an order: one walk over rows [first, last) of a table.
ORDER_TABLE = 0
ORDER_FIRST = 8
ORDER_LAST = 16
ORDER_COMMIT = 24
ORDER_ERROR = 32
ORDER_CANCEL = 40
ORDER_STAMPS = 48
ORDER_PATCHES = 56
ORDER_PATCH_COUNT = 64
ORDER_VALUES = 72
ORDER_FINISHES = 80
ORDER_BYTES = 88

# A table row is (function, argument block, chunks, 0); a patch is (slot address, number of the value, bytes to add to it).
ROW_WORDS = 4
PATCH_WORDS = 3

_FUTEX_WAIT_PRIVATE = 128
_FUTEX_WAKE_PRIVATE = 129
_SYS_FUTEX = 202
_IEEE_MXCSR = 0x1F80  # round to nearest, denormals kept, no traps


def _field(base: str, name: str, offset: int) -> str:
    return f"  %{name} = getelementptr i8, ptr %{base}, i64 {offset}\n"


def _load(base: str, name: str, offset: int, kind: str = "i64") -> str:
    return _field(base, f"{name}.at", offset) + f"  %{name} = load {kind}, ptr %{name}.at, align 8\n"


_DECLARATIONS = """
declare i64 @syscall(i64, ...)
declare i32 @clock_gettime(i32, ptr)
declare i64 @write(i32, ptr, i64)
declare void @llvm.x86.sse2.pause()
declare void @llvm.x86.sse.ldmxcsr(ptr)
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @llvm.umin.i64(i64, i64)
"""

_PRIMITIVES = f"""
define internal i64 @now() nounwind {{
  %time = alloca [2 x i64], align 8
  %r = call i32 @clock_gettime(i32 1, ptr %time)
  %s = load i64, ptr %time, align 8
  %n.at = getelementptr i8, ptr %time, i64 8
  %n = load i64, ptr %n.at, align 8
  %ns = mul i64 %s, 1000000000
  %sum = add i64 %ns, %n
  ret i64 %sum
}}

define internal void @futex_wait(ptr %word, i32 %seen) nounwind {{
  %r = call i64 (i64, ...) @syscall(i64 {_SYS_FUTEX}, ptr %word, i32 {_FUTEX_WAIT_PRIVATE}, i32 %seen, ptr null)
  ret void
}}

define internal void @futex_wake(ptr %word, i32 %count) nounwind {{
  %r = call i64 (i64, ...) @syscall(i64 {_SYS_FUTEX}, ptr %word, i32 {_FUTEX_WAKE_PRIVATE}, i32 %count)
  ret void
}}

; standard floating point, whatever the caller had set
define internal void @set_ieee() nounwind {{
  %word = alloca i32, align 4
  store i32 {_IEEE_MXCSR}, ptr %word, align 4
  call void @llvm.x86.sse.ldmxcsr(ptr %word)
  ret void
}}

; whether a ticket still has chunks to claim
define internal i1 @is_open(i64 %ticket) alwaysinline nounwind {{
  %next = and i64 %ticket, 4294967295
  %chunks = lshr i64 %ticket, 32
  %open = icmp ult i64 %next, %chunks
  ret i1 %open
}}
"""

# Claim and run chunks of the open item until a claim fails; how many were run.
_WORK = f"""
define internal i64 @work(ptr %pool, i64 %thread) nounwind {{
entry:
  br label %claim
claim:
  %count = phi i64 [0, %entry], [%more, %run]
  %ticket = atomicrmw add ptr %pool, i64 1 seq_cst
  %open = call i1 @is_open(i64 %ticket)
  br i1 %open, label %run, label %end
run:
  %chunk = and i64 %ticket, 4294967295
  ; read only now: before the claim these may be those of an earlier run
{_load("pool", "function", FUNCTION, "ptr")}{_load("pool", "arguments", ARGUMENTS, "ptr")}
{_load("pool", "base", SCRATCH, "ptr")}{_load("pool", "stride", SCRATCH_STRIDE)}
  %skip = mul i64 %thread, %stride
  %scratch = getelementptr i8, ptr %base, i64 %skip
  call void %function(ptr %arguments, i64 %chunk, ptr %scratch)
  %more = add i64 %count, 1
  br label %claim
end:
  ret i64 %count
}}
"""

_LAUNCH = f"""
define internal void @launch(ptr %pool, ptr %function, ptr %arguments, i64 %chunks) nounwind {{
entry:
{_field("pool", "done.at", DONE)}{_field("pool", "waiting.at", WAITING)}
{_field("pool", "function.at", FUNCTION)}{_field("pool", "arguments.at", ARGUMENTS)}
{_field("pool", "epoch.at", EPOCH)}{_field("pool", "sleepers.at", SLEEPERS)}
  store ptr %function, ptr %function.at, align 8
  store ptr %arguments, ptr %arguments.at, align 8
  store atomic i32 0, ptr %done.at monotonic, align 4
  %ticket = shl i64 %chunks, 32
  %old = atomicrmw xchg ptr %pool, i64 %ticket seq_cst
  %sleepers = load atomic i32, ptr %sleepers.at seq_cst, align 4
  %asleep = icmp sgt i32 %sleepers, 0
  br i1 %asleep, label %wake, label %share
wake:
  %sleepers64 = zext i32 %sleepers to i64
  %others = sub i64 %chunks, 1
  %wanted64 = call i64 @llvm.umin.i64(i64 %sleepers64, i64 %others)
  %wanted = trunc i64 %wanted64 to i32
  %s = atomicrmw sub ptr %sleepers.at, i32 %wanted seq_cst
  %e = atomicrmw add ptr %epoch.at, i32 1 seq_cst
  call void @futex_wake(ptr %epoch.at, i32 %wanted)
  br label %share
share:
  %own = call i64 @work(ptr %pool, i64 0)
  %rest64 = sub i64 %chunks, %own
  %rest = trunc i64 %rest64 to i32
  %alone = icmp eq i32 %rest, 0
  br i1 %alone, label %end, label %watch
watch:
{_load("pool", "spin.ns", SPIN_NS)}
  %since = call i64 @now()
  br label %spin
spin:
  %turn = phi i64 [0, %watch], [%turn1, %pause]
  %done = load atomic i32, ptr %done.at acquire, align 4
  %finished = icmp eq i32 %done, %rest
  br i1 %finished, label %end, label %pause
pause:
  call void @llvm.x86.sse2.pause()
  %turn1 = add i64 %turn, 1
  %low = and i64 %turn1, 31
  %look = icmp eq i64 %low, 0
  %late = call i1 @is_late(i1 %look, i64 %since, i64 %spin.ns)
  br i1 %late, label %announce, label %spin
announce:
  %w = atomicrmw xchg ptr %waiting.at, i32 1 seq_cst
  br label %park
park:
  %seen = load atomic i32, ptr %done.at seq_cst, align 4
  %enough = icmp eq i32 %seen, %rest
  br i1 %enough, label %woken, label %wait
wait:
  call void @futex_wait(ptr %done.at, i32 %seen)
  br label %park
woken:
  store atomic i32 0, ptr %waiting.at release, align 4
  br label %end
end:
  ret void
}}

; whether the spinning time is over; the clock is read only when `look`
define internal i1 @is_late(i1 %look, i64 %since, i64 %spin) alwaysinline nounwind {{
entry:
  br i1 %look, label %read, label %end
read:
  %time = call i64 @now()
  %passed = sub i64 %time, %since
  %over = icmp ugt i64 %passed, %spin
  br label %end
end:
  %late = phi i1 [false, %entry], [%over, %read]
  ret i1 %late
}}
"""

# Run an order; the row after the last one that ran: less than `last` if a cancel was seen up to the commit row; -1 if a check
# failed, in which case no later row ran. Having run to `last`, it counts that in the word `finishes`, if the order has one.
_WALK = f"""
define internal i64 @walk(ptr %pool, ptr %order) nounwind {{
entry:
  %mxcsr = alloca i32, align 4
  call void @llvm.x86.sse.stmxcsr(ptr %mxcsr)
  call void @set_ieee()
{_load("order", "patches", ORDER_PATCHES, "ptr")}{_load("order", "patch_count", ORDER_PATCH_COUNT)}
{_load("order", "values", ORDER_VALUES, "ptr")}
  br label %patch
patch:
  %p = phi i64 [0, %entry], [%p1, %patch.one]
  %patched = icmp eq i64 %p, %patch_count
  br i1 %patched, label %start, label %patch.one
patch.one:
  %patch.at = getelementptr [{PATCH_WORDS} x i64], ptr %patches, i64 %p
  %slot = load ptr, ptr %patch.at, align 8
{_load("patch.at", "number", 8)}{_load("patch.at", "addend", 16)}
  %value.at = getelementptr i64, ptr %values, i64 %number
  %value = load i64, ptr %value.at, align 8
  %sum = add i64 %value, %addend
  store i64 %sum, ptr %slot, align 8
  %p1 = add i64 %p, 1
  br label %patch
start:
{_load("order", "table", ORDER_TABLE, "ptr")}{_load("order", "first", ORDER_FIRST)}{_load("order", "last", ORDER_LAST)}
{_load("order", "commit", ORDER_COMMIT)}{_load("order", "error.word", ORDER_ERROR, "ptr")}
{_load("order", "cancel.word", ORDER_CANCEL, "ptr")}{_load("order", "stamps", ORDER_STAMPS, "ptr")}
{_load("order", "finishes", ORDER_FINISHES, "ptr")}
{_load("pool", "base", SCRATCH, "ptr")}{_load("pool", "workers", WORKERS)}
  store atomic i64 0, ptr %error.word monotonic, align 8
  %stamped = icmp ne ptr %stamps, null
  %no_workers = icmp eq i64 %workers, 0
  br i1 %stamped, label %first.stamp, label %rows
first.stamp:
  %began = call i64 @now()
  br label %rows
rows:
  %time0 = phi i64 [0, %start], [%began, %first.stamp]
  br label %next
next:
  %i = phi i64 [%first, %rows], [%i1, %row.end]
  %time = phi i64 [%time0, %rows], [%time1, %row.end]
  %error = load atomic i64, ptr %error.word monotonic, align 8
  %failed = icmp ne i64 %error, 0
  br i1 %failed, label %end, label %look
look:
  %all = icmp sge i64 %i, %last
  br i1 %all, label %end, label %consider
consider:
  %cancel = load atomic i64, ptr %cancel.word monotonic, align 8
  %asked = icmp ne i64 %cancel, 0
  %uncommitted = icmp sle i64 %i, %commit
  %cancelled = and i1 %asked, %uncommitted
  br i1 %cancelled, label %end, label %row
row:
  %row.at = getelementptr [{ROW_WORDS} x i64], ptr %table, i64 %i
  %function = load ptr, ptr %row.at, align 8
{_load("row.at", "arguments", 8, "ptr")}{_load("row.at", "chunks", 16)}
  %few = icmp sle i64 %chunks, 1
  %single = or i1 %few, %no_workers
  br i1 %single, label %alone, label %shared
alone:
  %chunk = phi i64 [0, %row], [%chunk1, %alone.one]
  %none = icmp sge i64 %chunk, %chunks
  br i1 %none, label %ran, label %alone.one
alone.one:
  call void %function(ptr %arguments, i64 %chunk, ptr %base)
  %chunk1 = add i64 %chunk, 1
  br label %alone
shared:
  call void @launch(ptr %pool, ptr %function, ptr %arguments, i64 %chunks)
  br label %ran
ran:
  br i1 %stamped, label %stamp, label %row.end
stamp:
  %ended = call i64 @now()
  %took = sub i64 %ended, %time
  %stamp.at = getelementptr i64, ptr %stamps, i64 %i
  %before = load i64, ptr %stamp.at, align 8
  %total = add i64 %before, %took
  store i64 %total, ptr %stamp.at, align 8
  br label %row.end
row.end:
  %time1 = phi i64 [%time, %ran], [%ended, %stamp]
  %i1 = add i64 %i, 1
  br label %next
end:
  %result = phi i64 [-1, %next], [%i, %look], [%i, %consider]
  call void @llvm.x86.sse.ldmxcsr(ptr %mxcsr)
  %complete = icmp eq i64 %result, %last
  %counts = icmp ne ptr %finishes, null
  %count = and i1 %complete, %counts
  br i1 %count, label %finish, label %leave
finish:
  %known = load i64, ptr %finishes, align 8
  %known1 = add i64 %known, 1
  store i64 %known1, ptr %finishes, align 8
  br label %leave
leave:
  ret i64 %result
}}
"""

# A pool's thread: record is (pool, number of the thread).
_WORKER = f"""
define internal ptr @worker(ptr %record) nounwind {{
entry:
  call void @set_ieee()
  %pool = load ptr, ptr %record, align 8
{_load("record", "thread", 8)}
{_field("pool", "done.at", DONE)}{_field("pool", "waiting.at", WAITING)}
{_field("pool", "epoch.at", EPOCH)}{_field("pool", "sleepers.at", SLEEPERS)}{_field("pool", "stop.at", STOP)}
  br label %idle
idle:
{_load("pool", "spin.ns", SPIN_NS)}
  %since = call i64 @now()
  %stop = load atomic i32, ptr %stop.at seq_cst, align 4
  %stopped = icmp ne i32 %stop, 0
  br i1 %stopped, label %end, label %poll
poll:
  %turn = phi i64 [0, %idle], [%turn1, %pause]
  %ticket = load atomic i64, ptr %pool acquire, align 8
  %open = call i1 @is_open(i64 %ticket)
  br i1 %open, label %busy, label %pause
pause:
  call void @llvm.x86.sse2.pause()
  %turn1 = add i64 %turn, 1
  %low = and i64 %turn1, 31
  %look = icmp eq i64 %low, 0
  %late = call i1 @is_late(i1 %look, i64 %since, i64 %spin.ns)
  br i1 %late, label %park, label %poll
park:
  %epoch = load atomic i32, ptr %epoch.at seq_cst, align 4
  %s = atomicrmw add ptr %sleepers.at, i32 1 seq_cst
  %last = load atomic i64, ptr %pool seq_cst, align 8
  %late_open = call i1 @is_open(i64 %last)
  br i1 %late_open, label %busy, label %leave
leave:
  %stop1 = load atomic i32, ptr %stop.at seq_cst, align 4
  %stopped1 = icmp ne i32 %stop1, 0
  br i1 %stopped1, label %end, label %sleep
sleep:
  call void @futex_wait(ptr %epoch.at, i32 %epoch)
  br label %idle
busy:
  %ran = call i64 @work(ptr %pool, i64 %thread)
  %nothing = icmp eq i64 %ran, 0
  br i1 %nothing, label %idle, label %report
report:
  %ran32 = trunc i64 %ran to i32
  %d = atomicrmw add ptr %done.at, i32 %ran32 seq_cst
  %waiting = load atomic i32, ptr %waiting.at seq_cst, align 4
  %parked = icmp ne i32 %waiting, 0
  br i1 %parked, label %wake, label %idle
wake:
  call void @futex_wake(ptr %done.at, i32 1)
  br label %idle
end:
  ret ptr null
}}
"""

# The thread that drives long plans while the caller waits in Python: woken by RUN_EPOCH, it tells the end through an eventfd.
_RUNNER = f"""
define internal ptr @runner(ptr %record) nounwind {{
entry:
  %one = alloca i64, align 8
  store i64 1, ptr %one, align 8
  %pool = load ptr, ptr %record, align 8
{_field("pool", "epoch.at", RUN_EPOCH)}{_field("pool", "stop.at", STOP)}
  br label %look
look:
  %seen = phi i32 [0, %entry], [%seen, %sleep], [%epoch, %run]
  %epoch = load atomic i32, ptr %epoch.at seq_cst, align 4
  %stop = load atomic i32, ptr %stop.at seq_cst, align 4
  %stopped = icmp ne i32 %stop, 0
  br i1 %stopped, label %end, label %compare
compare:
  %same = icmp eq i32 %epoch, %seen
  br i1 %same, label %sleep, label %run
sleep:
  call void @futex_wait(ptr %epoch.at, i32 %seen)
  br label %look
run:
{_load("pool", "order", RUN_ORDER, "ptr")}{_load("pool", "event", RUN_EVENT, "i32")}
  %result = call i64 @walk(ptr %pool, ptr %order)
{_field("pool", "result.at", RUN_RESULT)}
  store i64 %result, ptr %result.at, align 8
  %written = call i64 @write(i32 %event, ptr %one, i64 8)
  br label %look
end:
  ret ptr null
}}
"""

# A kernel: copy piece `chunk` of a range; arguments are (to, from, bytes, bytes of a piece). To nowhere, nothing is copied.
_COPY = f"""
define internal void @copy(ptr %arguments, i64 %chunk, ptr %scratch) nounwind {{
entry:
  %to = load ptr, ptr %arguments, align 8
  %nowhere = icmp eq ptr %to, null
  br i1 %nowhere, label %end, label %go
go:
{_load("arguments", "from", 8, "ptr")}{_load("arguments", "size", 16)}{_load("arguments", "piece", 24)}
  %start = mul i64 %chunk, %piece
  %left = sub i64 %size, %start
  %bytes = call i64 @llvm.umin.i64(i64 %left, i64 %piece)
  %target = getelementptr i8, ptr %to, i64 %start
  %source = getelementptr i8, ptr %from, i64 %start
  call void @llvm.memmove.p0.p0.i64(ptr %target, ptr %source, i64 %bytes, i1 false)
  br label %end
end:
  ret void
}}
"""

_TABLE = f"""
@{TABLE} = constant [{len(FUNCTIONS)} x ptr] [{", ".join(f"ptr @{name}" for name in FUNCTIONS)}]
"""

TEXT = _DECLARATIONS + _PRIMITIVES + _WORK + _LAUNCH + _WALK + _WORKER + _RUNNER + _COPY + _TABLE
