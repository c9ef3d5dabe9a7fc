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
class Image:
    """A contraction's factor made of the windows of an image: it is never in memory itself.

    Window (n, p) has the place p strides + tap dilations - lows of image n at each tap; outside the image it is 0. The image has
    `extents` (n, d, h, w, c), its channels are cut into groups. As A, row m of batch entry g is window m, its k-th element is
    (tap, channel of group g). As B (`right`), k runs over the windows of leaf b % leaves, of which each has the same number, and
    columns are (tap, channel of group b // leaves).
    """

    extents: tuple[int, ...]
    windows: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    lows: tuple[int, ...]
    dilations: tuple[int, ...]
    groups: int
    right: bool
    leaves: int
    spread: tuple[int, ...] = (1, 1, 1)

    @property
    def places(self) -> int:
        """Windows of all images."""
        return self.extents[0] * self.windows[0] * self.windows[1] * self.windows[2]


@dataclass(frozen=True)
class Contraction:
    """C[b,m,n] = sum_k A[b,m,k] * B[b,k,n], one multiply-add chain per output in k order, float32 accumulation.

    a, b      bodies giving the operand's element (its last instruction) over index spaces (batch, m, k) and (batch, k, n);
              the dtype of both is float32 or bfloat16 (pairs k, k+1 enter the dot-product instruction together), or float64
    epilogue  body over (batch, m, n) with `acc` (float32, or float64), and its stores
    image     if given, A, or B where it is `right`, is made of its windows: that body is a load over the image's extents, with
              channels side by side
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
    image: Image | None = None

    @property
    def a_extents(self) -> tuple[int, ...]:
        return self.image.extents if self.image is not None and not self.image.right else (self.batch, self.m, self.k)

    @property
    def b_extents(self) -> tuple[int, ...]:
        return self.image.extents if self.image is not None and self.image.right else (self.batch, self.k, self.n)


@dataclass(frozen=True)
class Depthwise:
    """A convolution of each channel with its own kernel, one multiply-add chain per output, or its weight's gradient.

    y[n,p,c] = sum_taps x[n, p strides + tap dilations - lows, c] * w[tap,c], or, where `sums`, s[leaf,tap,c] = sum over the
    windows p of a leaf, in order, of x[...] * y[n,p,c]; a leaf is `leaf_rows` rows of windows, the last of a plane has fewer.
    Element i of the image is at place i spread; elsewhere it is 0.

    image     body over the image's extents (n, d, h, w, c)
    right     body over (tap, c), or over (n, p0, p1, p2, c)
    epilogue  body over (1, window of all images, c), or (leaf, tap, c), with `acc`, and its stores
    """

    extents: tuple[int, ...]
    windows: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    lows: tuple[int, ...]
    dilations: tuple[int, ...]
    spread: tuple[int, ...]
    dtype: DType
    sums: bool
    leaf_rows: int
    leaves: int
    image: tuple[Instr, ...]
    right: tuple[Instr, ...]
    epilogue: tuple[Instr, ...]
    stores: tuple[Store, ...]

    @property
    def places(self) -> int:
        """Windows of all images."""
        return self.extents[0] * self.windows[0] * self.windows[1] * self.windows[2]

    @property
    def taps(self) -> int:
        return self.kernel[0] * self.kernel[1] * self.kernel[2]

    @property
    def results(self) -> tuple[int, int, int]:
        """Extents of the epilogue."""
        return (self.leaves, self.taps, self.extents[4]) if self.sums else (1, self.places, self.extents[4])

    @property
    def right_extents(self) -> tuple[int, ...]:
        return (self.extents[0], *self.windows, self.extents[4]) if self.sums else (self.taps, self.extents[4])


@dataclass(frozen=True)
class Windows:
    """An image as tiles of a 3x3 convolution with stride 1 see it, for products by Winograd's minimal filtering.

    Tile (n, i, j) makes the `tile` x `tile` places from (tile i, tile j) on of the (p, q) that the convolution has, as far as
    they exist, out of the (tile + 2) x (tile + 2) places from (tile i - lows[0], tile j - lows[1]) on of image n; outside the
    image it reads 0.
    """

    tile: int
    n: int
    image: tuple[int, int]
    places: tuple[int, int]
    lows: tuple[int, int]

    @property
    def grid(self) -> tuple[int, int]:
        """Tiles along each axis of an image."""
        return -(-self.places[0] // self.tile), -(-self.places[1] // self.tile)

    @property
    def tiles(self) -> int:
        """Tiles of all images, numbered image by image and row by row."""
        return self.n * self.grid[0] * self.grid[1]

    @property
    def terms(self) -> int:
        """Products of a tile, for each channel read and each made."""
        return (self.tile + 2) ** 2

    def seen(self, c: int) -> tuple[int, ...]:
        """Extents of the image, with c channels."""
        return (self.n, *self.image, c)

    def made(self, k: int) -> tuple[int, ...]:
        """Extents of what the convolution makes, with k channels."""
        return (self.n, *self.places, k)


@dataclass(frozen=True)
class Winograd:
    """A 3x3 convolution with stride 1: y[tile] = A^T (sum over c of (B^T x[tile, c] B) * U[c, k]) A, each sum one chain over c.

    x         body over (n, h, w, c); its value is read as float32
    u         number of the operand U, (ceil(k / width), terms, c, width) float32 (see WinogradWeights), read all over
    epilogue  body over (1, n p q, k) with `acc` (float32), and its stores
    """

    windows: Windows
    c: int
    k: int
    width: int
    x: tuple[Instr, ...]
    u: int
    epilogue: tuple[Instr, ...]
    stores: tuple[Store, ...]

    @property
    def results(self) -> tuple[int, int, int]:
        """Extents of the epilogue."""
        return 1, self.windows.n * self.windows.places[0] * self.windows.places[1], self.k


@dataclass(frozen=True)
class WinogradWeights:
    """U = G w G^T for each pair of channels: operand `out`, (ceil(k / width), terms, c, width), 0 where there is no channel k.

    w  body over (k, c, 3, 3); its value is read as float32
    """

    tile: int
    c: int
    k: int
    width: int
    w: tuple[Instr, ...]
    out: int


@dataclass(frozen=True)
class WinogradSums:
    """M[g, xi, c, k] = sum over the tiles of group g of (B^T x[tile, c] B)[xi] * (A y[tile, k] A^T)[xi].

    Tiles are cut evenly into `blocks`, block b from tile floor(tiles b / blocks) on; a block is one chain. Blocks are dealt
    evenly to `groups` in the same way, and added in order.

    x, y  bodies over (n, h, w, c) and (n, p, q, k); their values are read as float32
    out   operand (groups, ceil(k / width), terms, c, width) float32, 0 where there is no channel k
    """

    windows: Windows
    c: int
    k: int
    width: int
    blocks: int
    groups: int
    x: tuple[Instr, ...]
    y: tuple[Instr, ...]
    out: int


@dataclass(frozen=True)
class WinogradWeightGradient:
    """dw = G^T (sum over groups of M) G: operand `sums` as WinogradSums makes it, `out` (k, c, 1, 3, 3) float32.

    The groups, a power of two, are added in halves: g + groups / 2 to g, until one is left.
    """

    tile: int
    c: int
    k: int
    width: int
    groups: int
    sums: int
    out: int


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


Spec = Nest | Contraction | Depthwise | Winograd | WinogradWeights | WinogradSums | WinogradWeightGradient | Scatter | Host


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
