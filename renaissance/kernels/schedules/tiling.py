"""How a contraction is cut: register tiles, panels, blocks of k, groups, chunks. Plain numbers, no code.

The output is cut into tiles of `rows` rows and panels of `width` columns. Tiles form groups whose part of A stays in the
second-level cache; panels form bands, of which there is one unless k is cut into blocks. The work list is (batch, group, band,
panel, tile), and a chunk is any contiguous part of it, so work divides evenly whatever the shape. None of this changes a bit:
every sum is one chain.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from renaissance.ir.plan import Contraction
from renaissance.ir.target import Target
from renaissance.kernels.schedules.microkernel import Unit

_SMALL_FLOPS = 400_000    # less than this is not worth a second thread,
_CHUNK_FLOPS = 250_000    # and no chunk is made shorter than this: about a microsecond
_ONE_PASS = 1024          # units of k up to which a reduction is not cut into blocks,
_K_BLOCK = 384            # and the longest block of those that are
_MAX_VECTORS = 8
_PADDING = 0.03           # share of columns beyond the matrix that may be computed


@dataclass(frozen=True)
class Copies:
    """Cycles it takes to pack a unit of A and of B; 0 for an A that is read in place."""

    a: float
    b: float


@dataclass(frozen=True)
class Tiling:
    """Counts and sizes of one contraction.

    rows            rows of the high tiles; `low_rows` those of the others; the first `high_tiles` of `tiles` are high
    vectors         vectors in a panel; the last panel has `last_vectors`
    k_block         units of k in a block (k_blocks of them; at least one, so that an empty sum reaches the epilogue)
    group_tiles     tiles in a group (the last has fewer)
    band_panels     panels in a band (the last has fewer)
    chunks          equal parts of the work list
    """

    unit: Unit
    rows: int
    low_rows: int
    high_tiles: int
    tiles: int
    vectors: int
    last_vectors: int
    panels: int
    k_block: int
    k_blocks: int
    group_tiles: int
    band_panels: int
    batch: int
    chunks: int

    @property
    def heights(self) -> tuple[int, ...]:
        return (self.rows,) if self.low_rows == self.rows else (self.rows, self.low_rows)

    @property
    def a_width(self) -> int:
        """Units of a packed row of A: whole vectors."""
        return round_up(self.rows, self.unit.lanes)

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return self.vectors * self.unit.lanes

    @property
    def groups(self) -> int:
        return ceil_div(self.tiles, self.group_tiles)

    @property
    def bands(self) -> int:
        return ceil_div(self.panels, self.band_panels)

    @property
    def work(self) -> int:
        """Length of the work list; places beyond the last tile or panel are void."""
        return self.batch * self.groups * self.bands * self.band_panels * self.group_tiles


def choose(spec: Contraction, unit: Unit, target: Target, threads: int, *, copies: Copies) -> Tiling:
    """The Tiling of a contraction on a Target."""
    tiles, rows, low = heights(spec.m, spec.n, unit, target)
    vectors, panels, last_vectors = panels_of(spec.n, rows, unit, target)
    units = ceil_div(spec.k, unit.depth)
    passes = 1 if units <= _ONE_PASS else ceil_div(units, _K_BLOCK)
    k_block = round_up(max(ceil_div(units, passes), 1), 16)
    k_blocks = max(1, ceil_div(units, k_block))
    # Shares of the second-level cache: the group's part of A, and where k is cut the band's sums; the rest is for B and results.
    share = 3 / 4 if k_blocks == 1 else 3 / 8
    most_tiles = max(1, int(target.l2_bytes * share) // (rows * k_block * unit.bytes))
    band_panels = max(1, panels)
    if k_blocks > 1:
        sums = max(1, min(tiles, most_tiles)) * rows * vectors * unit.lanes * unit.bytes
        band_panels = even(panels, max(1, target.l2_bytes // 2 // sums))
    whole = Tiling(unit, rows, low, spec.m - tiles * low, tiles, vectors, last_vectors, panels, k_block, k_blocks,
                   even(tiles, most_tiles), band_panels, spec.batch, 1)
    return _cut(whole, 2 * spec.batch * spec.m * spec.n * spec.k, threads, copies)


def heights(m: int, n: int, unit: Unit, target: Target) -> tuple[int, int, int]:
    """How many tiles m rows are cut into, and the heights of the high and the low ones, for n columns."""
    most = (9 if ceil_div(n, unit.lanes) == 3 else 14) if target.registers >= 32 else 6
    tiles = ceil_div(m, most)
    if m >= most * (most - 1):  # every such m is a sum of these two heights, so that all share one object
        return tiles, most, most - 1
    return (tiles, ceil_div(m, tiles), m // tiles) if m else (0, 1, 1)


def panels_of(n: int, rows: int, unit: Unit, target: Target) -> tuple[int, int, int]:
    """Vectors of a panel beside tiles of so many rows, how many panels n columns make, and the vectors of the last."""
    columns = ceil_div(n, unit.lanes)
    vectors = min(max((target.registers - 2) // (rows + 1), 2), _MAX_VECTORS, max(columns, 1))
    panels = ceil_div(columns, vectors)
    last_vectors = columns - (panels - 1) * vectors
    if vectors - last_vectors < _PADDING * columns:  # so little is wasted that it is not worth code of its own
        last_vectors = vectors
    return vectors, panels, last_vectors


def _cut(whole: Tiling, flops: int, threads: int, copies: Copies) -> Tiling:
    """The same with the number of groups and chunks that costs least."""
    if flops < _SMALL_FLOPS or threads == 1:
        return whole
    fewest, most_chunks = whole.groups, min(whole.work, flops // _CHUNK_FLOPS)
    cuts = [replace(whole, group_tiles=ceil_div(whole.tiles, groups), chunks=min(most_chunks, threads * each))
            for groups in range(fewest, min(whole.tiles, 2 * fewest + 2) + 1) for each in (1, 2, 3, 4)]
    return min(cuts, key=lambda t: overhead(t, copies))


def overhead(t: Tiling, copies: Copies) -> float:
    """Cycles a cut costs beside the multiply-adds, all threads together: copies, starts of chunks, waiting for the last chunk.

    Coarse: A is copied once for each band and chunk that meet, B once for each panel and group and once more where a chunk ends
    inside a panel.
    """
    units = t.k_block * t.k_blocks
    bands = t.batch * t.groups * t.bands
    meetings = max(bands, t.chunks) if bands % t.chunks == 0 or t.chunks % bands == 0 else bands + t.chunks - 1
    copying = copies.a * units * t.a_width * t.group_tiles * meetings
    copying += copies.b * units * t.width * (t.batch * t.groups * t.panels + t.chunks)
    multiplies = 0.5 * units * t.batch * t.tiles * t.panels * t.rows * t.vectors
    return copying + 1000 * t.chunks + 0.1 * multiplies / t.chunks


def even(count: int, most: int) -> int:
    """The length of the fewest equal parts of at most `most`; at least 1."""
    return ceil_div(count, max(1, ceil_div(count, most))) or 1


def ceil_div(x: int, y: int) -> int:
    return -(-x // y)


def round_up(x: int, to: int) -> int:
    return ceil_div(x, to) * to


def laid_out(sizes: dict[str, int]) -> tuple[dict[str, int], int]:
    """Where parts of scratch begin, each at a cache line, one behind the other, and the end."""
    starts: dict[str, int] = {}
    end = 0
    for name, size in sizes.items():
        starts[name] = end
        end += round_up(size, 64)
    return starts, end
