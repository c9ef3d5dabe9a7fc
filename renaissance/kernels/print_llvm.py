"""Prints a loop program as LLVM IR text: one line or a few for each operation, no flags that would let LLVM change a number.

The text is made directly because `llvmlite.ir` has neither bfloat nor opaque-pointer intrinsics, and it is faster.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from renaissance.errors import KernelError
from renaissance.ir.target import Target
from renaissance.kernels.loops import Branch, Builder, Loop, Module, Node, Statement, Type, Value, vec

_NAMES = {"f32": "float", "f64": "double", "bf16": "bfloat", "f16": "half"}
_FLOAT_OPS = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_INT_OPS = {"div": "sdiv", "rem": "srem"}
_BINARY = ("add", "sub", "mul", "div", "rem", "udiv", "urem", "and", "or", "xor", "shl", "lshr", "ashr")
_ROUNDING = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "roundeven", "sqrt": "sqrt"}
_FLOAT_PREDICATES = {"lt": "olt", "le": "ole", "eq": "oeq", "ne": "une", "gt": "ogt", "ge": "oge"}
_INT_PREDICATES = {"lt": "slt", "le": "sle", "eq": "eq", "ne": "ne", "gt": "sgt", "ge": "sge", "ult": "ult", "ule": "ule"}
_DOT = {4: "128", 8: "256", 16: "512"}


def print_module(module: Module, target: Target) -> str:
    """The LLVM IR of a module for a Target.

    raises  KernelError if the program uses what the Target lacks
    """
    declarations: dict[str, str] = {}
    bodies = [_FunctionPrinter(f, target, declarations).text() for f in module.functions.values()]
    return "\n".join([f'; {module.name}', *declarations.values(), *bodies])


def type_name(type: Type) -> str:
    """LLVM's name of a type."""
    name = _NAMES.get(type.kind, type.kind)
    return name if type.lanes == 1 else f"<{type.lanes} x {name}>"


class _FunctionPrinter:
    def __init__(self, function: Builder, target: Target, declarations: dict[str, str]):
        self.function = function
        self.target = target
        self.declarations = declarations
        self.lines: list[str] = []
        self.block = "entry"
        self.fresh = 0
        self.handlers: dict[str, Callable[[Statement], None]] = {
            **dict.fromkeys(_BINARY, self.binary), **dict.fromkeys(_ROUNDING, self.rounding),
            **dict.fromkeys(("min", "max"), self.integer_bound), **dict.fromkeys(("zext", "utof", "ftou"), self.unsigned)}

    def text(self) -> str:
        f = self.function
        params = ", ".join(f"{type_name(p.type)} {self.ref(p)}" for p in f.params.values())
        result = "void" if f.result is None else type_name(f.result)
        linkage, attributes = ("", "nounwind") if f.exported else ("internal ", "nounwind")
        if f.noinline:
            attributes += " noinline"
        if f.cold:
            attributes += " cold"
        self.nodes(f.body)
        if (f.returned is None) != (f.result is None):
            raise KernelError(f"{f.name}: a function with a result must end in ret()")
        self.lines.append("  ret void" if f.returned is None else f"  ret {self.typed(f.returned)}")
        return f"define {linkage}{result} @{f.name}({params}) {attributes} {{\nentry:\n" + "\n".join(self.lines) + "\n}\n"

    # ---- operands --------------------------------------------------------------------------------------------------------------

    def ref(self, value: Value) -> str:
        if value.bits is None:
            return f"%v{value.number}"
        if isinstance(value.bits, tuple):
            item = type_name(value.type.with_lanes(1))
            return "<" + ", ".join(f"{item} {_literal(value.type, b)}" for b in value.bits) + ">"
        if value.type.lanes == 1:
            return _literal(value.type, value.bits)
        return f"splat ({type_name(value.type.with_lanes(1))} {_literal(value.type, value.bits)})"

    def typed(self, value: Value) -> str:
        return f"{type_name(value.type)} {self.ref(value)}"

    def args(self, *values: Value) -> str:
        return ", ".join(self.typed(v) for v in values)

    def temporary(self, text: str) -> str:
        self.fresh += 1
        name = f"%t{self.fresh}"
        self.lines.append(f"  {name} = {text}")
        return name

    def define(self, statement: Statement, text: str) -> None:
        self.lines.append(f"  %v{statement.result.number} = {text}")  # type: ignore[union-attr]

    def intrinsic(self, name: str, result: str, params: str) -> str:
        """Declares an intrinsic and gives the beginning of a call of it."""
        self.declarations.setdefault(name, f"declare {result} @{name}({params})")
        return f"call {result} @{name}"

    # ---- control ---------------------------------------------------------------------------------------------------------------

    def nodes(self, nodes: list[Node]) -> None:
        for node in nodes:
            if isinstance(node, Statement):
                handler = self.handlers.get(node.op)
                if handler is None:
                    handler = self.handlers[node.op] = getattr(self, f"op_{node.op}")
                handler(node)
            elif isinstance(node, Loop):
                self.loop(node)
            else:
                self.branch(node)

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self.block = name

    def loop(self, loop: Loop) -> None:
        n = loop.index.number
        before, head = self.block, len(self.lines)
        self.lines.append("")  # the head needs the name of the last block of the body: written below
        self.label(f"body{n}")
        self.nodes(loop.body)
        following = self.temporary(f"add nsw i64 {self.ref(loop.index)}, {self.ref(loop.step)}")
        self.lines.append(f"  br label %head{n}")
        phis = [f"  {self.ref(loop.index)} = phi i64 [ {self.ref(loop.lo)}, %{before} ], [ {following}, %{self.block} ]"]
        phis += [f"  {self.ref(c)} = phi {type_name(c.type)} [ {self.ref(i)}, %{before} ], [ {self.ref(f)}, %{self.block} ]"
                 for c, i, f in zip(loop.carried, loop.init, loop.following)]
        self.lines[head] = "\n".join([
            f"  br label %head{n}", f"head{n}:", *phis,
            f"  %more{n} = icmp slt i64 {self.ref(loop.index)}, {self.ref(loop.hi)}",
            f"  br i1 %more{n}, label %body{n}, label %exit{n}"])
        self.label(f"exit{n}")

    def branch(self, branch: Branch) -> None:
        self.fresh += 1
        n = self.fresh
        otherwise = f"else{n}" if branch.otherwise else f"end{n}"
        self.lines.append(f"  br i1 {self.ref(branch.condition)}, label %then{n}, label %{otherwise}")
        self.label(f"then{n}")
        self.nodes(branch.then)
        self.lines.append(f"  br label %end{n}")
        if branch.otherwise:
            self.label(f"else{n}")
            self.nodes(branch.otherwise)
            self.lines.append(f"  br label %end{n}")
        self.label(f"end{n}")

    def op_call(self, s: Statement) -> None:
        if s.result is None:
            self.lines.append(f"  call void @{s.attr}({self.args(*s.args)})")
        else:
            self.define(s, f"call {type_name(s.result.type)} @{s.attr}({self.args(*s.args)})")

    # ---- arithmetic ------------------------------------------------------------------------------------------------------------

    def binary(self, s: Statement) -> None:
        x, y = s.args
        op = (_FLOAT_OPS if x.type.is_float else _INT_OPS).get(s.op, s.op)
        self.define(s, f"{op} {self.typed(x)}, {self.ref(y)}")

    def rounding(self, s: Statement) -> None:
        self.math(s, _ROUNDING[s.op])

    def integer_bound(self, s: Statement) -> None:
        self.math(s, f"s{s.op}")

    def math(self, s: Statement, name: str) -> None:
        type = s.args[0].type
        text = type_name(type)
        call = self.intrinsic(f"llvm.{name}.{_suffix(type)}", text, ", ".join([text] * len(s.args)))
        self.define(s, f"{call}({self.args(*s.args)})")

    def op_neg(self, s: Statement) -> None:
        x = s.args[0]
        self.define(s, f"fneg {self.typed(x)}" if x.type.is_float else f"sub {type_name(x.type)} zeroinitializer, {self.ref(x)}"
                    if x.type.lanes > 1 else f"sub {type_name(x.type)} 0, {self.ref(x)}")

    def op_abs(self, s: Statement) -> None:
        x = s.args[0]
        if x.type.is_float:
            return self.math(s, "fabs")
        text = type_name(x.type)
        call = self.intrinsic(f"llvm.abs.{_suffix(x.type)}", text, f"{text}, i1")
        return self.define(s, f"{call}({self.typed(x)}, i1 false)")

    def op_not(self, s: Statement) -> None:
        x = s.args[0]
        ones = _literal(x.type, (1 << x.type.bits) - 1)
        self.define(s, f"xor {self.typed(x)}, " + (ones if x.type.lanes == 1 else f"splat ({x.type.kind} {ones})"))

    def op_fma(self, s: Statement) -> None:
        if self.target.fma:
            return self.math(s, "fma")
        a, b, c = s.args
        product = self.temporary(f"fmul {self.typed(a)}, {self.ref(b)}")
        return self.define(s, f"fadd {type_name(a.type)} {product}, {self.ref(c)}")

    def op_dot_bf16(self, s: Statement) -> None:
        if not self.target.bf16_dot:
            raise KernelError(f"{self.function.name}: dot_bf16 needs bfloat16 dot products, {self.target.isa} has none")
        acc, a, _ = s.args
        result = type_name(acc.type)
        call = self.intrinsic(f"llvm.x86.avx512bf16.dpbf16ps.{_DOT[acc.type.lanes]}", result, ", ".join(map(type_name, (
            acc.type, a.type, a.type))))
        self.define(s, f"{call}({self.args(*s.args)})")

    # ---- comparison, selection, conversion -------------------------------------------------------------------------------------

    def op_cmp(self, s: Statement) -> None:
        x, y = s.args
        word = f"fcmp {_FLOAT_PREDICATES[s.attr]}" if x.type.is_float else f"icmp {_INT_PREDICATES[s.attr]}"  # type: ignore[index]
        self.define(s, f"{word} {self.typed(x)}, {self.ref(y)}")

    def op_select(self, s: Statement) -> None:
        self.define(s, f"select {self.args(*s.args)}")

    def op_bitcast(self, s: Statement) -> None:
        self.cast(s, "bitcast")

    def cast(self, s: Statement, word: str) -> None:
        self.define(s, f"{word} {self.typed(s.args[0])} to {type_name(s.result.type)}")  # type: ignore[union-attr]

    def unsigned(self, s: Statement) -> None:
        self.cast(s, {"zext": "zext", "utof": "uitofp", "ftou": "fptoui"}[s.op])

    def op_convert(self, s: Statement) -> None:
        x, to = s.args[0], s.result.type  # type: ignore[union-attr]
        if x.type.is_int and to.is_int:
            self.cast(s, "trunc" if to.bits < x.type.bits else "sext")
        elif x.type.is_int:
            self.cast(s, "sitofp")
        elif to.is_int:
            self.float_to_int(s, x, to)
        elif x.type.kind == "bf16":
            self.define(s, self.widen(self.from_bfloat(x), to))
        elif to.kind == "bf16":
            self.to_bfloat(s, self.single(x), to)
        elif x.type.bits == 64 and to.bits == 16:
            self.define(s, f"fptrunc {type_name(to.with_kind('f32'))} {self.single(x)} to {type_name(to)}")
        else:
            self.cast(s, "fptrunc" if to.bits < x.type.bits else "fpext")

    def float_to_int(self, s: Statement, x: Value, to: Type) -> None:
        """Out of range gives the least integer on every Target: what x86 does, stated so that LLVM may not choose otherwise."""
        limit = 2.0 ** (to.bits - 1)
        inside = self.temporary(f"fcmp olt {type_name(x.type)} {self.absolute(x)}, {_splat(x.type, limit)}")
        raw = self.temporary(f"fptosi {self.typed(x)} to {type_name(to)}")
        mask, least = type_name(to.with_kind("i1")), _literal(to, 1 << (to.bits - 1))
        least = least if to.lanes == 1 else f"splat ({to.kind} {least})"
        self.define(s, f"select {mask} {inside}, {type_name(to)} {raw}, {type_name(to)} {least}")

    def absolute(self, x: Value) -> str:
        text = type_name(x.type)
        call = self.intrinsic(f"llvm.fabs.{_suffix(x.type)}", text, text)
        return self.temporary(f"{call}({self.typed(x)})")

    def single(self, x: Value) -> str:
        """The name of x as f32."""
        if x.type.kind == "f32":
            return self.ref(x)
        word = "fptrunc" if x.type.kind == "f64" else "fpext"
        return self.temporary(f"{word} {self.typed(x)} to {type_name(x.type.with_kind('f32'))}")

    def widen(self, name: str, to: Type) -> str:
        """The text that turns the bits `name` of an f32 into `to`."""
        single, bits = type_name(to.with_kind("f32")), type_name(to.with_kind("i32"))
        if to.kind == "f32":
            return f"bitcast {bits} {name} to {single}"
        value = self.temporary(f"bitcast {bits} {name} to {single}")
        return f"{'fpext' if to.kind == 'f64' else 'fptrunc'} {single} {value} to {type_name(to)}"

    def from_bfloat(self, x: Value) -> str:
        half, word = type_name(x.type.with_kind("i16")), type_name(x.type.with_kind("i32"))
        raw = self.temporary(f"bitcast {self.typed(x)} to {half}")
        wide = self.temporary(f"zext {half} {raw} to {word}")
        return self.temporary(f"shl {word} {wide}, {_splat(x.type.with_kind('i32'), 16)}")

    def to_bfloat(self, s: Statement, x: str, to: Type) -> None:
        """Round to nearest even on the bits: the hardware instruction would lose subnormal numbers."""
        word_type = to.with_kind("i32")
        single, word, half = (type_name(to.with_kind(k)) for k in ("f32", "i32", "i16"))
        raw = self.temporary(f"bitcast {single} {x} to {word}")
        up = self.temporary(f"lshr {word} {raw}, {_splat(word_type, 16)}")
        odd = self.temporary(f"and {word} {up}, {_splat(word_type, 1)}")
        bias = self.temporary(f"add {word} {odd}, {_splat(word_type, 0x7FFF)}")
        rounded = self.temporary(f"add {word} {raw}, {bias}")
        quiet = self.temporary(f"or {word} {raw}, {_splat(word_type, 0x400000)}")
        is_nan = self.temporary(f"fcmp uno {single} {x}, {x}")
        picked = self.temporary(f"select {type_name(to.with_kind('i1'))} {is_nan}, {word} {quiet}, {word} {rounded}")
        high = self.temporary(f"lshr {word} {picked}, {_splat(word_type, 16)}")
        low = self.temporary(f"trunc {word} {high} to {half}")
        self.define(s, f"bitcast {half} {low} to {type_name(to)}")

    # ---- memory ----------------------------------------------------------------------------------------------------------------

    def op_offset(self, s: Statement) -> None:
        ptr, count = s.args
        self.define(s, f"getelementptr i8, {self.typed(ptr)}, {self.typed(count)}")

    def op_load(self, s: Statement) -> None:
        type = s.result.type  # type: ignore[union-attr]
        if len(s.args) == 1:
            return self.define(s, f"load {type_name(type)}, {self.typed(s.args[0])}, align {s.attr}")
        ptr, mask = s.args
        carrier = _carrier(type)
        text = type_name(carrier)
        call = self.intrinsic(f"llvm.masked.load.{_suffix(carrier)}.p0", text, f"ptr, {type_name(mask.type)}, {text}")
        return self.arrived(s, f"{call}(ptr align {s.attr} {self.ref(ptr)}, {self.typed(mask)}, {text} zeroinitializer)")

    def op_store(self, s: Statement) -> None:
        value, ptr = s.args[:2]
        if len(s.args) == 2:
            self.lines.append(f"  store {self.typed(value)}, {self.typed(ptr)}, align {s.attr}")
            return
        mask = s.args[2]
        carrier = _carrier(value.type)
        call = self.intrinsic(f"llvm.masked.store.{_suffix(carrier)}.p0", "void",
                              f"{type_name(carrier)}, ptr, {type_name(mask.type)}")
        self.lines.append(f"  {call}({self.leaving(value)}, ptr align {s.attr} {self.ref(ptr)}, {self.typed(mask)})")

    def arrived(self, s: Statement, text: str) -> None:
        """Defines a statement's value by what a masked operation brought in the carrier of its type."""
        type = s.result.type  # type: ignore[union-attr]
        carrier = _carrier(type)
        self.define(s, text if carrier == type else f"bitcast {type_name(carrier)} {self.temporary(text)} to {type_name(type)}")

    def leaving(self, value: Value) -> str:
        """A value with its type, in the carrier of it."""
        carrier = _carrier(value.type)
        if carrier == value.type:
            return self.typed(value)
        return f"{type_name(carrier)} " + self.temporary(f"bitcast {self.typed(value)} to {type_name(carrier)}")

    def addresses(self, ptr: Value, index: Value, kind: str) -> str:
        pointers = f"<{index.type.lanes} x ptr>"
        name = self.temporary(f"getelementptr {type_name(Type(kind))}, {self.typed(ptr)}, {self.typed(index)}")
        return f"{pointers} align {Type(kind).size} {name}"

    def all_lanes(self, type: Type) -> str:
        return f"{type_name(type.with_kind('i1'))} splat (i1 true)"

    def op_gather(self, s: Statement) -> None:
        type = s.result.type  # type: ignore[union-attr]
        carrier = _carrier(type)
        text, lanes = type_name(carrier), type.lanes
        mask = self.typed(s.args[2]) if len(s.args) == 3 else self.all_lanes(type)
        addresses = self.addresses(s.args[0], s.args[1], type.kind)
        call = self.intrinsic(f"llvm.masked.gather.{_suffix(carrier)}.v{lanes}p0", text,
                              f"<{lanes} x ptr>, <{lanes} x i1>, {text}")
        self.arrived(s, f"{call}({addresses}, {mask}, {text} zeroinitializer)")

    def op_scatter(self, s: Statement) -> None:
        value = s.args[0]
        lanes, carrier = value.type.lanes, _carrier(value.type)
        mask = self.typed(s.args[3]) if len(s.args) == 4 else self.all_lanes(value.type)
        addresses = self.addresses(s.args[1], s.args[2], value.type.kind)
        call = self.intrinsic(f"llvm.masked.scatter.{_suffix(carrier)}.v{lanes}p0", "void",
                              f"{type_name(carrier)}, <{lanes} x ptr>, <{lanes} x i1>")
        self.lines.append(f"  {call}({self.leaving(value)}, {addresses}, {mask})")

    def op_prefetch(self, s: Statement) -> None:
        call = self.intrinsic("llvm.prefetch.p0", "void", "ptr, i32, i32, i32")
        self.lines.append(f"  {call}({self.typed(s.args[0])}, i32 {int(bool(s.attr))}, i32 3, i32 1)")

    def op_atomic_flag(self, s: Statement) -> None:
        ptr, value = s.args
        self.temporary(f"cmpxchg {self.typed(ptr)}, i64 0, {self.typed(value)} seq_cst seq_cst")

    # ---- lanes -----------------------------------------------------------------------------------------------------------------

    def op_splat(self, s: Statement) -> None:
        type = s.result.type  # type: ignore[union-attr]
        text = type_name(type)
        first = self.temporary(f"insertelement {text} poison, {self.typed(s.args[0])}, i64 0")
        self.define(s, f"shufflevector {text} {first}, {text} poison, <{type.lanes} x i32> zeroinitializer")

    def op_lane_mask(self, s: Statement) -> None:
        """Compared in the narrowest lanes that make one register of them."""
        lanes = s.result.type.lanes  # type: ignore[union-attr]
        call = self.intrinsic("llvm.smin.i64", "i64", "i64, i64")
        low = self.temporary(f"{call}({self.typed(s.args[0])}, i64 {lanes})")
        call = self.intrinsic("llvm.smax.i64", "i64", "i64, i64")
        count = self.temporary(f"{call}(i64 {low}, i64 0)")
        kind = "i32" if lanes <= 16 else "i16" if lanes == 32 else "i8"
        narrow = self.temporary(f"trunc i64 {count} to {kind}")
        if lanes == 1:
            return self.define(s, f"icmp ne {kind} {narrow}, 0")
        numbers = vec(kind, lanes)
        text = type_name(numbers)
        first = self.temporary(f"insertelement {text} poison, {kind} {narrow}, i64 0")
        splat = self.temporary(f"shufflevector {text} {first}, {text} poison, <{lanes} x i32> zeroinitializer")
        iota = self.ref(Value(numbers, 0, tuple(range(lanes))))
        return self.define(s, f"icmp ult {text} {iota}, {splat}")

    def op_extract(self, s: Statement) -> None:
        self.define(s, f"extractelement {self.typed(s.args[0])}, i64 {s.attr}")

    def op_insert(self, s: Statement) -> None:
        self.define(s, f"insertelement {self.args(*s.args)}, i64 {s.attr}")

    def op_shuffle(self, s: Statement) -> None:
        indices: tuple[int, ...] = s.attr  # type: ignore[assignment]
        picks = ", ".join(f"i32 {i}" for i in indices)
        self.define(s, f"shufflevector {self.args(*s.args)}, <{len(indices)} x i32> <{picks}>")


def _carrier(type: Type) -> Type:
    """The type in which masked operations move another: 16-bit floats go as integers, for which no Target calls a library."""
    return type.with_kind("i16") if type.kind in ("bf16", "f16") else type


def _suffix(type: Type) -> str:
    """How an intrinsic's name spells an overloaded type."""
    return type.kind if type.lanes == 1 else f"v{type.lanes}{type.kind}"


def _splat(type: Type, value: float) -> str:
    """The literal of a number in all lanes."""
    kind = type.kind
    text = str(value) if type.is_int else f"0x{_double_bits(value):016X}"
    return text if type.lanes == 1 else f"splat ({_NAMES.get(kind, kind)} {text})"


def _literal(type: Type, bits: int) -> str:
    kind = type.kind
    if kind == "i1":
        return "true" if bits else "false"
    if kind == "ptr":
        return "null" if bits == 0 else f"inttoptr (i64 {bits} to ptr)"
    if type.is_int:
        return str(bits)
    if kind == "f64":
        return f"0x{bits:016X}"
    if kind == "bf16":
        return f"0xR{bits:04X}"
    if kind == "f16":
        return f"0xH{bits:04X}"
    return f"0x{_single_as_double(bits):016X}"


def _double_bits(value: float) -> int:
    return struct.unpack("<Q", struct.pack("<d", value))[0]


def _single_as_double(bits: int) -> int:
    """The bits of the double equal to a single given by bits; a NaN keeps its payload (LLVM's hex form)."""
    if bits & 0x7F800000 == 0x7F800000:
        return (bits >> 31) << 63 | 0x7FF << 52 | (bits & 0x7FFFFF) << 29
    return _double_bits(struct.unpack("<f", struct.pack("<I", bits))[0])
