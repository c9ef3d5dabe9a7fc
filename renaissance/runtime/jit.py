"""LLVM IR text to native functions: compiled once per machine, loaded once per process."""

from __future__ import annotations

import functools
import itertools
import os
import platform
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import llvmlite.binding as llvm

from renaissance.config import settings
from renaissance.errors import KernelError
from renaissance.ir.target import Target
from renaissance.kernels.lowered import Lowered
from renaissance.kernels.print_llvm import print_module
from renaissance.runtime import libc
from renaissance.runtime.disk_cache import DiskCache, sources_digest

_library_numbers = itertools.count()
_lock = threading.RLock()
# A fork while another thread compiles would leave this lock, and LLVM's, held for ever in the child: it waits.
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


@dataclass(frozen=True)
class Source:
    """A function to be had in native code: what identifies it, the symbol it exports, and its LLVM IR, made only if needed."""

    key: str
    symbol: str
    text: Callable[[], str]


def functions(kernels: Sequence[Lowered], target: Target) -> list[int]:
    """Addresses of lowered kernels; equal keys are one function.

    raises   KernelError when LLVM refuses a kernel, DeviceError on a platform that is not supported
    """
    return compiler().load([Source(k.key, k.symbol, _printer(k, target)) for k in kernels], target)


def object_code(text: str, target: Target) -> bytes:
    """Compile LLVM IR to an object file, by LLVM's passes without those that unroll or vectorise: vector code is explicit.

    raises   KernelError with LLVM's words when it refuses the text
    """
    machine = _target_machine(target)
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise KernelError(f"LLVM refused a kernel: {error}") from error
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_unrolling = options.loop_vectorization = options.loop_interleaving = options.slp_vectorization = False
    passes = llvm.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)
    return machine.emit_object(module)


class Compiler:
    """Object code by key: in memory, else from the cache folder, else compiled. All its functions live until the process ends."""

    def __init__(self, folder: Path):
        self.cache = DiskCache(folder, ".o")
        self.compiled = 0  # how many objects were not found in any cache
        self._addresses: dict[tuple[str, Target], int] = {}
        self._libraries: list[llvm.orcjit.ResourceTracker] = []
        libc.library()  # refuses platforms that are not supported

    def load(self, sources: Sequence[Source], target: Target) -> list[int]:
        """Addresses of functions, in order.

        raises   KernelError when LLVM refuses a text or the object lacks the symbol
        """
        with _lock:
            return [self._address(source, target) for source in sources]

    def _address(self, source: Source, target: Target) -> int:
        known = self._addresses.get((source.key, target))
        if known is None:
            key = _cache_key(source, target)
            code = self.cache.get(key)
            if code is None:
                code = object_code(source.text(), target)
                self.compiled += 1
                self.cache.put(key, code)
            known = self._addresses[source.key, target] = self._link(code, source)
        return known

    def _link(self, code: bytes, source: Source) -> int:
        """Give an object a library of its own, because symbols of different kernels may be equal."""
        library = llvm.JITLibraryBuilder().add_object_img(code).add_current_process().export_symbol(source.symbol)
        try:
            tracker = library.link(_linker(), f"kernel{next(_library_numbers)}")
        except RuntimeError as error:
            raise KernelError(f"kernel {source.key}: {error}") from error
        self._libraries.append(tracker)
        return tracker[source.symbol]


@functools.cache
def compiler() -> Compiler:
    """The compiler of this process, on the cache folder of the settings."""
    return Compiler(settings().cache_dir)


def _printer(kernel: Lowered, target: Target) -> Callable[[], str]:
    return lambda: print_module(kernel.build(), target)


def _cache_key(source: Source, target: Target) -> str:
    version = ".".join(str(n) for n in llvm.llvm_version_info)
    sources = sources_digest("ir", "kernels", "runtime")
    return "\n".join((source.key, source.symbol, repr(target), version, platform.machine(), sources))


@functools.cache
def _native() -> llvm.Target:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple()


@functools.cache
def _target_machine(target: Target) -> llvm.TargetMachine:
    # Code and constants of an object may be mapped more than 2 GiB apart, beside a large arena: addresses take 64 bits.
    return _native().create_target_machine(cpu=target.cpu, features=target.features, opt=2, reloc="static", codemodel="large")


@functools.cache
def _linker() -> llvm.orcjit.LLJIT:
    """One linker for all: it only loads objects, so it need not know their Target."""
    return llvm.create_lljit_compiler(_native().create_target_machine(reloc="static", codemodel="large"))
