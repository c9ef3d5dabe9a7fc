"""A Plan as data: what runs, in which order, on which bytes. `compile` writes it, `kernels` and `runtime` read it.

An Item is one kernel launch described by *what* it computes over an index space; how it is computed (tiles, vectors, chunks) is
the business of `kernels`. All extents, strides and offsets in an Item are concrete numbers, counted in elements.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from renaissance.ir.dtype import DType


@dataclass(frozen=True)
class Access:
    """Where an operand is read or written at a point of the index space: offset + sum(strides[d] * index[d])."""

    operand: int
    strides: tuple[int, ...]
    offset: int = 0


@dataclass(frozen=True)
class Instr:
    """One step of a body, in SSA form: `args` are numbers of earlier instructions of the same body.

    op is a word of `ops/scalar.py` (attr None unless stated there), or one of
      load      attr Access; args () or (mask,): where mask is false nothing is read and the value is 0
      load_at   attr Access of one dimension with stride 1; args (index,) or (index, mask): element offset + `index` (int64) of
                the operand, flat
      const     attr the value, as bytes in the dtype's NumPy form
      scalar    attr number of a run-time scalar of the Plan
      coord     attr dimension of the index space; dtype int64
      cast      converts to `dtype`
      carry     attr (stage, instr): in a later stage, the result of a reduce stage (instr 0) or a point stage's value
      acc       contraction epilogue only: the product's element
      philox    attr (seed scalar, ticket scalar); args (index,): uint32, the random word of that logical index
      check     attr number of the message; args (condition,): raises after the plan unless true everywhere; value = condition
    dtype is the value's dtype. bfloat16 values are computed in float32 and rounded after every instruction.
    """

    op: str
    args: tuple[int, ...]
    attr: Hashable
    dtype: DType


@dataclass(frozen=True)
class Store:
    """Write instruction `value` of the body through `access`; the operand has the instruction's dtype."""

    access: Access
    value: int


@dataclass(frozen=True)
class Stage:
    """One sweep inside a Nest.

    map     the body at every point; stores. Later stages may load, by an equal Access, what it stored
    reduce  the body at every point; the last instruction's value is combined ('sum', 'max', 'min', 'prod', 'any', 'all',
            'argmax', 'argmin') along the reduced dimension; its result is carry (stage, 0)
    point   the body once per kept point; stores; its instructions can be carried into later stages
    """

    kind: str
    body: tuple[Instr, ...]
    stores: tuple[Store, ...] = ()
    combine: str | None = None


@dataclass(frozen=True)
class Nest:
    """Stages over an index space.

    layout 'row'     the last dimension is the row: reduce stages run along it with 64 interleaved accumulators (element i goes
                     to accumulator i % 64, in order), folded by halves (j += j+32, then 16 ... 1); point stages run once per
                     outer point; map stages run over the whole row. Reduced rows are at most 4096 long.
    layout 'column'  the last dimension is kept, the one before it is reduced: one chain per output in index order, starting
                     from the first element; at most 256 long. Stages: reduces, which go through the elements together, then at
                     most one point.
    """

    layout: str
    extents: tuple[int, ...]
    stages: tuple[Stage, ...]


@dataclass(frozen=True)
class Contraction:
    """C[b,m,n] = sum_k A[b,m,k] * B[b,k,n], one multiply-add chain per output in k order, float32 accumulation.

    a, b      bodies giving the operand's element (its last instruction) over index spaces (batch, m, k) and (batch, k, n);
              the dtype of both is float32 or bfloat16 (pairs k, k+1 enter the dot-product instruction together), or float64
    epilogue  body over (batch, m, n) with `acc` (float32, or float64), and its stores
    """

    batch: int
    m: int
    n: int
    k: int
    dtype: DType
    a: tuple[Instr, ...]
    b: tuple[Instr, ...]
    epilogue: tuple[Instr, ...]
    stores: tuple[Store, ...]


@dataclass(frozen=True)
class Scatter:
    """out[index[i], j] (+)= value[i, j] for i in order; owner computes: each thread owns a range of the output.

    out starts as `init` (an operand read first) or 0. combine 'sum' or 'last'. Index space of the bodies: (i, j).
    """

    rows: int
    n: int
    m: int
    combine: str
    index: tuple[Instr, ...]
    value: tuple[Instr, ...]
    init: Access | None
    out: int


@dataclass(frozen=True)
class Host:
    """A call of a Python function on NumPy arrays: the named host op, its static attributes, operands in, then out."""

    op: str
    attrs: tuple[Hashable, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


Spec = Nest | Contraction | Scatter | Host


@dataclass(frozen=True)
class Operand:
    """A buffer as an Item sees it. An output may be the very bytes of an input when both accesses are equal."""

    buffer: int
    dtype: DType
    mode: str  # 'in', 'out'


@dataclass(frozen=True)
class Item:
    """One kernel launch: its spec, its operands, a readable name, and the graph nodes it computes (serials within the plan)."""

    name: str
    spec: Spec
    operands: tuple[Operand, ...]
    nodes: tuple[int, ...] = ()
    flops: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Buffer:
    """A range of bytes. place 'arena' (offset known), 'input' (leaf number), 'output' (output number)."""

    place: str
    index: int
    offset: int
    size_bytes: int
    dtype: DType
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """Everything a device needs to run a graph.

    inputs    leaf numbers are positions in the graph's leaf list; an 'input' buffer that an item writes is state updated in place
    scalars   dtypes of the run-time scalars (Python numbers, schedules, random seeds and tickets), in order
    outputs   for each graph output its (dtype, shape) and the buffer that holds it
    copies    after the run: (arena or input buffer, input buffer) byte copies that complete state updates
    commit    index of the first item that writes state: checks are complete before it
    messages  texts of the checks, by number
    """

    items: tuple[Item, ...]
    buffers: tuple[Buffer, ...]
    scalars: tuple[DType, ...]
    outputs: tuple[int, ...]
    arena_bytes: int
    commit: int
    messages: tuple[str, ...]
    notes: tuple[str, ...] = ()
    copies: tuple[tuple[int, int], ...] = ()
