"""Facts about the machine code is made for, as data. Nothing here looks at the running machine."""

from __future__ import annotations

from dataclasses import dataclass, replace

from renaissance.errors import ArgumentError


@dataclass(frozen=True)
class Target:
    """A machine: what its vectors hold, what it can do in one instruction, and how big its caches are.

    isa           'avx512', 'avx2', 'sse' (128-bit vectors) or 'neon'
    vector_bytes  bytes in one vector register
    registers     vector registers
    bf16_dot      has a dot product of bfloat16 pairs accumulating in float32
    fma           has a fused multiply-add; without it the Target defines multiply-add as two roundings
    cpu, features what LLVM is told
    winograd      3x3 convolutions may be done by minimal filtering: quicker, errors about ten times as large
    overrides     (name of a convolution, engine) where measurements chose the engine, not the cost model; in order of names
    """

    isa: str
    vector_bytes: int
    registers: int
    bf16_dot: bool
    fma: bool
    cpu: str
    features: str
    l1_bytes: int = 32 << 10
    l2_bytes: int = 1 << 20
    winograd: bool = True
    overrides: tuple[tuple[str, str], ...] = ()

    @property
    def lanes(self) -> int:
        """float32 values in one vector."""
        return self.vector_bytes // 4

    @property
    def machine(self) -> Target:
        """This Target as far as the code of a kernel depends on it: not on what was chosen about which kernels to use."""
        return replace(self, winograd=True, overrides=())

    def restricted(self, isa: str) -> Target:
        """This Target with narrower vectors: 'avx512', 'avx2' or 'sse'; wider than it has raises ArgumentError."""
        order = ["sse", "avx2", "avx512"]
        if isa not in order or self.isa not in order or order.index(isa) > order.index(self.isa):
            raise ArgumentError(f"target: cannot use {isa!r} on a machine with {self.isa!r}; choose from {order}")
        if isa == self.isa:
            return self
        off = ",".join(f"-{f}" for f in _WIDER[isa])
        vector_bytes, registers = {"avx2": (32, 16), "sse": (16, 16)}[isa]
        return replace(self, isa=isa, vector_bytes=vector_bytes, registers=registers, bf16_dot=False,
                       features=f"{self.features},{off}")


_AVX512 = ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512bf16", "avx512vnni", "avx512ifma",
           "avx512vbmi", "avx512vbmi2", "avx512bitalg", "avx512vpopcntdq", "avx512vp2intersect", "avx512fp16")
# 128-bit vectors keep fma and the VEX encodings (avx), so that a multiply-add has one rounding on every Target.
_WIDER = {"avx2": _AVX512, "sse": (*_AVX512, "avx2")}
