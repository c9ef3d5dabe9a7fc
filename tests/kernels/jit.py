"""A minimal compiler for the kernel tests: loop program -> machine code -> ctypes call."""

from __future__ import annotations

import ctypes

import llvmlite.binding as llvm

from renaissance.ir.target import Target
from renaissance.kernels import host
from renaissance.kernels.loops import Module
from renaissance.kernels.print_llvm import print_module

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()

_HOST = host.detect()
_ORDER = ("avx512", "avx2", "sse")
TARGETS = [_HOST.restricted(isa) for isa in _ORDER[_ORDER.index(_HOST.isa):]]


class Code:
    """A compiled module; keeps the engine alive."""

    def __init__(self, module: Module, target: Target):
        self.text = print_module(module, target)
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=target.cpu, features=target.features, opt=2, jit=True)
        parsed = llvm.parse_assembly(self.text)
        parsed.verify()
        options = llvm.create_pipeline_tuning_options(speed_level=2)
        options.loop_unrolling = False
        options.loop_vectorization = False
        options.slp_vectorization = False
        passes = llvm.create_pass_builder(machine, options)
        passes.getModulePassManager().run(parsed, passes)
        self.optimized = parsed
        self.machine = machine
        self.engine = llvm.create_mcjit_compiler(parsed, machine)
        self.engine.finalize_object()

    def call(self, name: str, args: int, chunk: int = 0, scratch: int = 0) -> None:
        prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
        prototype(self.engine.get_function_address(name))(args, chunk, scratch)

    def assembly(self) -> str:
        return self.machine.emit_assembly(self.optimized)
