"""The native threads that share the chunks of a plan's items, and the ways to have an order walked."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import os
import select
import signal
from collections.abc import Callable

from renaissance.config import usable_cpus
from renaissance.errors import DeviceError
from renaissance.runtime import libc, native, pages
from renaissance.runtime.arena import ThreadScratch
from renaissance.runtime.jit import Source, compiler
from renaissance.runtime.turn import ProcessTurn

SPIN_NS = 50_000
_CROWDED_SPIN_NS = 2_000  # with more threads than CPUs, one that spins keeps another from working
_SYNCHRONOUS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGABRT}

# Made after the compiler's lock, so that a fork asks for this first: a plan's host function may wait for the compiler.
turn = ProcessTurn()


@functools.cache
def driver() -> dict[str, int]:
    """Addresses of the native functions, by name."""
    (table,) = compiler().load([Source("driver", native.TABLE, lambda: native.TEXT)], native.BASELINE)
    addresses = (ctypes.c_uint64 * len(native.FUNCTIONS)).from_address(table)
    return dict(zip(native.FUNCTIONS, addresses))


@functools.cache
def walk() -> Callable[[int, int], int]:
    """walk(state, order): run an order on the calling thread as thread 0 of a pool; the row after the last one that ran."""
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(driver()["walk"])


@functools.cache
def pool(threads: int) -> Pool:
    """The pool of this process with so many threads, the caller being one of them."""
    return Pool(threads)


class Pool:
    """Native threads and the words they share with the driver (`native.py` says how).

    Threads are made when first needed, block all signals but those of their own faults, end at exit, and are made anew in a
    forked child.

    state          address of the shared words
    started        whether the threads exist
    scratch_bytes  private scratch of each thread
    """

    def __init__(self, threads: int):
        address = pages.allocate(pages.PAGE_BYTES)
        if address is None:
            raise DeviceError("no memory left for the state of the thread pool")
        self.threads = threads
        self.state = address
        self.started = False
        self.scratch_bytes = -1
        self._scratch = ThreadScratch()
        self._workers: list[int] = []
        self._runner: int | None = None
        self._event = -1
        self._done = select.poll()
        self._records = (ctypes.c_uint64 * (2 * threads + 2))()
        self._reset()
        atexit.register(self.stop)
        os.register_at_fork(after_in_child=self._after_fork)

    def prepare(self, scratch_bytes: int, shared: bool) -> None:
        """Have scratch for every thread, and the threads themselves if chunks will be shared; only while no plan runs.

        raises   DeviceError when the machine gives no thread or memory
        """
        self._scratch.require(self.threads, scratch_bytes)
        self.scratch_bytes = max(self.scratch_bytes, scratch_bytes)
        self._publish_scratch()
        if shared and not self.started:
            for thread in range(len(self._workers) + 1, self.threads):
                self._workers.append(self._spawn("worker", thread))
            self._word(native.WORKERS).value = len(self._workers)
            self.started = True

    def walk_patiently(self, order: int, cancel: ctypes.c_int64) -> tuple[int, BaseException | None]:
        """Walk an order on a native thread while this one waits where signals reach it: what `walk` gives, and the interruption.

        An exception from a signal handler sets the cancel word and is given back when the walk has ended. It may come between
        any two steps here: the epoch tells whether the walk was begun, and the event stays readable until the next walk.
        """
        if self._runner is None:
            self._start_runner()
        self._drain()
        self._word(native.RUN_ORDER).value = order
        epoch = self._word(native.RUN_EPOCH, ctypes.c_int32)
        before = epoch.value
        interrupt: BaseException | None = None
        while True:
            try:
                if epoch.value == before:
                    epoch.value += 1
                libc.futex_wake_all(self.state + native.RUN_EPOCH)
                self._done.poll()
                break
            except BaseException as raised:
                if epoch.value == before:
                    raise
                cancel.value = 1
                interrupt = interrupt or raised
        return self._word(native.RUN_RESULT).value, interrupt

    def stop(self) -> None:
        """End all threads. Work that another thread is driving goes on without them."""
        self._word(native.STOP, ctypes.c_int32).value = 1
        for futex in (native.EPOCH, native.RUN_EPOCH):
            self._word(futex, ctypes.c_int32).value += 1
            libc.futex_wake_all(self.state + futex)
        while self._workers:
            libc.library().pthread_join(self._workers.pop(), None)
        if self._runner is not None:
            libc.library().pthread_join(self._runner, None)
            self._runner = None

    def _start_runner(self) -> None:
        self._event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._word(native.RUN_EVENT, ctypes.c_int32).value = self._event
        self._done.register(self._event, select.POLLIN)
        self._runner = self._spawn("runner", 0)

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):  # nothing to read: there was no walk before
            os.eventfd_read(self._event)

    def _spawn(self, function: str, thread: int) -> int:
        """Start a thread of the pool, deaf to signals meant for the process; its pthread handle."""
        self._records[2 * thread], self._records[2 * thread + 1] = self.state, thread
        record = ctypes.addressof(self._records) + 2 * thread * ctypes.sizeof(ctypes.c_uint64)
        handle = ctypes.c_ulong()
        kept = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - _SYNCHRONOUS)
        try:
            failed = libc.library().pthread_create(ctypes.addressof(handle), None, driver()[function], record)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, kept)
        if failed:
            raise DeviceError(f"the system refused thread {thread} of {self.threads}: {os.strerror(failed)}")
        return handle.value

    def _reset(self) -> None:
        ctypes.memset(self.state, 0, native.STATE_BYTES)
        crowded = self.threads > usable_cpus()
        self._word(native.SPIN_NS).value = _CROWDED_SPIN_NS if crowded else SPIN_NS

    def _publish_scratch(self) -> None:
        self._word(native.SCRATCH).value = self._scratch.address
        self._word(native.SCRATCH_STRIDE).value = self._scratch.stride_bytes

    def _after_fork(self) -> None:
        """In the child only the forking thread exists: forget the others, which are started again when needed."""
        if self._event >= 0:
            self._done.unregister(self._event)
            os.close(self._event)
            self._event = -1
        self._workers.clear()
        self._runner = None
        self.started = False
        self._reset()
        self._publish_scratch()

    def _word(self, offset: int, kind: type = ctypes.c_int64):
        return kind.from_address(self.state + offset)
