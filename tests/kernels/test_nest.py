"""Nests by rows against their meaning: bits, sizes, strides, memory around the operands, and the cut into chunks."""

from __future__ import annotations

import numpy as np
import pytest

from renaissance.errors import KernelError
from renaissance.ir import dtype as dt
from renaissance.ir.philox import philox_uint32
from renaissance.ir.plan import Access, Instr, Nest, Stage
from renaissance.kernels.lower import lower
from tests.kernels.jit import TARGETS
from tests.kernels.launch import Body, item, launch, store
from tests.kernels.meaning import perform, same, samples

SIZES = [0, 1, 2, 15, 16, 17, 63, 64, 65, 200, 4096]
F = dt.float32


@pytest.fixture(params=TARGETS, ids=lambda t: t.isa)
def target(request):
    return request.param


def agree(work, arrays, target, **options):
    """Kernel and meaning leave the same bits, cut for one thread and for seven."""
    wanted = perform(work, arrays, options.get("scalars", ()))
    for threads in (1, 7):
        got, error = launch(work, arrays, target, threads=threads, seed=threads, **options)
        assert error == 0
        for n, (g, w) in enumerate(zip(got, wanted)):
            assert same(g, w), (n, threads, g, w)
    return wanted


def row(extents, *stages):
    return Nest("row", extents, stages)


# ---- maps -------------------------------------------------------------------------------------------------------------


def map_of(extents, body, *stores):
    return row(extents, Stage("map", body.done, stores))


@pytest.mark.parametrize("n", SIZES)
def test_map_of_any_length(n, target):
    body = Body()
    x, y = body.load(0, (1,)), body.load(1, (1,))
    total = body.add("add", (x, body.add("mul", (x, y))))
    work = item(map_of((n,), body, store(2, (1,), total)), [F, F], [F])
    agree(work, [samples(F, (n,), 0), samples(F, (n,), 1), np.zeros(n, np.float32)], target)


@pytest.mark.parametrize("dtype", dt.ALL, ids=lambda d: d.name)
def test_map_of_any_dtype(dtype, target):
    """65 elements: the masked end of every item size."""
    body = Body()
    x = body.load(0, (1,), dtype)
    chosen = body.add("where", (body.load(1, (1,), dt.bool_), x, body.add("maximum", (x, x), None, dtype)), None, dtype)
    work = item(map_of((65,), body, store(2, (1,), chosen)), [dtype, dt.bool_], [dtype])
    agree(work, [samples(dtype, (65,)), samples(dt.bool_, (65,), 1), np.zeros(65, dtype.numpy)], target)


@pytest.mark.parametrize("extents", [(3, 5, 7), (2, 1, 33), (4, 64), (0, 5), (5, 0), (), (1, 1)])
def test_broadcast_bias_and_column(extents, target):
    """Strides 0 and 1 along the row, and a value for each row."""
    rank = len(extents)
    dense = tuple(int(np.prod(extents[d + 1:])) for d in range(rank))
    last = tuple(int(d == rank - 1) for d in range(rank))
    first = tuple(int(d == 0) for d in range(rank))
    body = Body()
    parts = [body.load(0, dense), body.load(1, last), body.load(2, first), body.const(0.3), body.add("scalar", (), 0)]
    total = parts[0]
    for p in parts[1:]:
        total = body.add("add", (total, p))
    work = item(map_of(extents, body, store(3, dense, total)), [F] * 3, [F])
    shapes = [extents, extents[-1:] or (1,), extents[:1] or (1,)]
    arrays = [samples(F, s, n) for n, s in enumerate(shapes)] + [np.zeros(extents, np.float32)]
    agree(work, arrays, target, scalars=[1.5])


@pytest.mark.parametrize("n", [1, 17, 100])
def test_strided_reversed_and_transposed(n, target):
    """Also a second output, which is transposed: whole blocks of columns at a time."""
    body = Body()
    every_third = body.load(0, (3 * n, 3), offset=1)
    backwards = body.load(1, (n, -1), offset=n - 1)
    turned = body.load(2, (1, 7))
    total = body.add("add", (body.add("add", (every_third, backwards)), turned))
    work = item(map_of((7, n), body, store(3, (n, 1), total), store(4, (1, 7), total)), [F] * 3, [F] * 2)
    arrays = [samples(F, (7, 3 * n)), samples(F, (7, n), 1), samples(F, (n, 7), 2), np.zeros((7, n), np.float32),
              np.zeros((n, 7), np.float32)]
    agree(work, arrays, target)


def test_padding_reads_nothing_outside(target):
    """A masked load whose addresses leave the operand where the mask is false; and one of stride 0, masked along the row."""
    body = Body()
    h, w = body.coord(0), body.coord(1)
    inside = None
    for at, n in ((h, 5), (w, 37)):
        moved = body.add("sub", (at, body.const(2, dt.int64)), None, dt.int64)
        low = body.add("le", (body.const(0, dt.int64), moved), None, dt.bool_)
        high = body.add("lt", (moved, body.const(n, dt.int64)), None, dt.bool_)
        both = body.add("and", (low, high), None, dt.bool_)
        inside = both if inside is None else body.add("and", (inside, both), None, dt.bool_)
    x = body.load(0, (37, 1), offset=-2 * 37 - 2, mask=inside)
    once = body.load(1, (1, 0), offset=-2, mask=inside)
    work = item(map_of((9, 41), body, store(2, (41, 1), x), store(3, (41, 1), once)), [F, F], [F, F])
    agree(work, [samples(F, (5, 37)), samples(F, (5,)), np.ones((9, 41), np.float32), np.ones((9, 41), np.float32)], target)


@pytest.mark.parametrize("dtype", [F, dt.bfloat16, dt.int8], ids=lambda d: d.name)
def test_gather(dtype, target):
    body = Body()
    index = body.load(1, (1,), dt.int64)
    positive = body.add("le", (body.const(0, dt.int64), index), None, dt.bool_)
    got = body.add("load_at", (index, positive), Access(0, (1,)), dtype)
    work = item(map_of((77,), body, store(2, (1,), got)), [dtype, dt.int64], [dtype])
    index = np.random.default_rng(0).integers(-3, 50, 77)
    index[index < 0] = -(10**12)  # must not be read
    agree(work, [samples(dtype, (50,)), index, np.zeros(77, dtype.numpy)], target)


@pytest.mark.parametrize("dtype", [F, dt.bfloat16, dt.float16, dt.uint8, dt.bool_, dt.int16, dt.float64], ids=lambda d: d.name)
def test_neighbours_in_a_table(dtype, target):
    """What one index picks at several distances, some of them side by side; behind the last column indices lie outside."""
    body = Body()
    column = body.coord(1)
    at = body.add("add", (body.load(1, (1, 0), dt.int64), body.add("mul", (column, column), None, dt.int64)), None, dt.int64)
    offsets = (2, 3, 4, 0, 9, 40)
    got = [body.add("load_at", (at,), Access(0, (1,), offset), dtype) for offset in offsets]
    stores = [store(2 + n, (21, 1), value) for n, value in enumerate(got)]
    work = item(map_of((5, 21), body, *stores), [dtype, dt.int64], [dtype] * len(offsets))
    rows = np.array([0, 3, 59, 17, 1])
    agree(work, [samples(dtype, (500,)), rows, *(np.zeros((5, 21), dtype.numpy) for _ in offsets)], target)


@pytest.mark.parametrize("dtype", [F, dt.bfloat16, dt.uint8], ids=lambda d: d.name)
def test_rows_of_a_table(dtype, target):
    """out[i, j] = table[index[i], j + 3], negative indices counting from the end: contiguous along the row."""
    body = Body()
    chosen = body.load(1, (1, 0), dt.int64)
    negative = body.add("lt", (chosen, body.const(0, dt.int64)), None, dt.bool_)
    from_end = body.add("add", (chosen, body.const(9, dt.int64)), None, dt.int64)
    chosen = body.add("where", (negative, from_end, chosen), None, dt.int64)
    start = body.add("add", (body.coord(1), body.add("mul", (chosen, body.const(80, dt.int64)), None, dt.int64)), None, dt.int64)
    inside = body.add("lt", (body.coord(1), body.const(77, dt.int64)), None, dt.bool_)
    at = body.add("sub", (start, body.const(-3, dt.int64)), None, dt.int64)
    got = body.add("load_at", (at, inside), Access(0, (1,)), dtype)
    work = item(map_of((20, 79), body, store(2, (79, 1), got)), [dtype, dt.int64], [dtype])
    index = np.random.default_rng(0).integers(-9, 9, 20)
    agree(work, [samples(dtype, (9, 80)), index, np.zeros((20, 79), dtype.numpy)], target)


@pytest.mark.parametrize("dtype", [F, dt.float64, dt.bfloat16, dt.int8], ids=lambda d: d.name)
@pytest.mark.parametrize("n", [1, 16, 65])
def test_every_second_element(dtype, n, target):
    """The even and the odd elements; the last odd one is the last of the operand."""
    body = Body()
    even, odd = body.load(0, (2 * n, 2), dtype), body.load(0, (2 * n, 2), dtype, offset=1)
    larger = body.add("maximum", (even, odd), None, dtype)
    work = item(map_of((3, n), body, store(1, (n, 1), larger)), [dtype], [dtype])
    agree(work, [samples(dtype, (3, 2 * n)), np.zeros((3, n), dtype.numpy)], target)


def test_coordinates_survive_reordering(target):
    """The output is transposed, so lanes run along dimension 0; the coordinates must still mean what they did."""
    body = Body()
    code = body.add("add", (body.add("mul", (body.coord(0), body.const(1000, dt.int64)), None, dt.int64), body.coord(1)), None,
                    dt.int64)
    work = item(map_of((70, 6), body, store(0, (1, 70), code)), [], [dt.int64])
    agree(work, [np.zeros((6, 70), np.int64)], target)


@pytest.mark.parametrize("extents", [(1000,), (8, 128), (5, 50)])
def test_random_words(extents, target):
    body = Body()
    place = body.coord(len(extents) - 1)
    if len(extents) == 2:
        place = body.add("add", (body.add("mul", (body.coord(0), body.const(extents[1], dt.int64)), None, dt.int64), place), None,
                         dt.int64)
    word = body.add("philox", (place,), (0, 1), dt.uint32)
    dense = (extents[-1], 1)[-len(extents):]
    work = item(map_of(extents, body, store(0, dense, word)), [], [dt.uint32])
    seed, ticket = 2**63 + 12345, 2**40 + 7
    for threads in (1, 3):
        got, _ = launch(work, [np.zeros(extents, np.uint32)], target, threads=threads, scalars=[seed, ticket])
        assert np.array_equal(got[0].reshape(-1), philox_uint32(seed, ticket, np.arange(got[0].size)))


def test_one_random_word_for_each_row(target):
    body = Body()
    word = body.add("philox", (body.coord(0),), (0, 0), dt.uint32)
    work = item(map_of((70, 20), body, store(0, (20, 1), word)), [], [dt.uint32])
    got, _ = launch(work, [np.zeros((70, 20), np.uint32)], target, scalars=[9])
    assert np.array_equal(got[0], np.repeat(philox_uint32(9, 9, np.arange(70))[:, None], 20, axis=1))


def test_in_place(target):
    """The output is the very memory of the first input."""
    body = Body()
    x = body.load(0, (50, 1))
    total = body.add("add", (x, body.load(1, (0, 1))))
    work = item(map_of((40, 50), body, store(2, (50, 1), total)), [F, F], [F])
    x, y = samples(F, (40, 50)), samples(F, (50,), 1)
    with np.errstate(all="ignore"):
        wanted = x + y
    for threads in (1, 5):
        got, _ = launch(work, [x, y, x], target, threads=threads, shared={2: 0})
        assert same(got[2], wanted)


@pytest.mark.parametrize("fails_at", [None, 0, 70, 99])
def test_check(fails_at, target):
    body = Body()
    x = body.load(0, (1,))
    body.add("check", (body.add("lt", (x, body.const(1.0)), None, dt.bool_),), 6, dt.bool_)
    work = item(map_of((100,), body, store(1, (1,), x)), [F], [F])
    x = np.zeros(100, np.float32)
    if fails_at is not None:
        x[fails_at] = 2
    assert launch(work, [x, x * 0], target)[1] == (0 if fails_at is None else 7)


def test_one_code_for_many_shapes_and_constants():
    def key(n, factor, offset, stride=1):
        body = Body()
        x = body.load(0, (stride,), offset=offset)
        work = item(map_of((n,), body, store(1, (1,), body.add("mul", (x, body.const(factor))))), [F], [F])
        return lower(work, TARGETS[0], 2).key
    assert key(10, 0.3, 0) == key(100_000, 0.7, 5)
    assert key(10, 0.3, 0) != key(10, 0.3, 0, stride=2)
    assert key(10, 0.3, 0, stride=3) == key(10, 0.3, 0, stride=40)
    assert key(10, 0.3, 0).isidentifier()


def test_chunks_follow_work_and_threads():
    def chunks(extents, threads):
        body = Body()
        x = body.load(0, (extents[1], 1))
        return lower(item(map_of(extents, body, store(1, (extents[1] + 1, 1), x)), [F], [F]), TARGETS[0], threads).chunks
    assert chunks((2, 100), 8) == 1
    assert chunks((1000, 1000), 1) == 1
    assert chunks((1000, 1000), 2) == 8
    assert chunks((1, 1_000_000), 2) == 8
    assert 6 <= chunks((3, 300_000), 2) <= 9


# ---- reductions -------------------------------------------------------------------------------------------------------


def reduction(combine, dtype, rows, n, result=None):
    """Reduce a row, then store the result in a point stage."""
    body, point = Body(), Body()
    body.load(0, (n, 1), dtype)
    result = result or (dt.int64 if combine[:3] == "arg" else dtype)
    carried = point.add("carry", (), (0, 0), result)
    stages = Stage("reduce", body.done, (), combine), Stage("point", point.done, (store(1, (1, 0), carried),))
    return item(row((rows, n), *stages), [dtype], [result]), result


@pytest.mark.parametrize("n", SIZES)
def test_sum_of_any_length(n, target):
    work, _ = reduction("sum", F, 3, n)
    x = np.random.default_rng(0).normal(size=(3, n)).astype(np.float32)
    agree(work, [x, np.ones(3, np.float32)], target)


@pytest.mark.parametrize("combine", ["sum", "prod", "max", "min", "any", "all", "argmax", "argmin"])
@pytest.mark.parametrize("dtype", [F, dt.float64, dt.bfloat16, dt.int8, dt.uint8, dt.int64, dt.uint64, dt.bool_],
                         ids=lambda d: d.name)
def test_reductions(combine, dtype, target):
    if (combine in ("any", "all")) != (dtype is dt.bool_) and combine[:3] != "arg":
        return  # sums of bool and truth of numbers are made of casts
    work, result = reduction(combine, dtype, 5, 150)
    x = samples(dtype, (5, 150))
    if dtype.is_float and combine in ("max", "min"):
        x[x == 0] = 1  # of 0 and -0 either may win in NumPy
        x[:3] = np.nan_to_num(x[:3].astype(np.float32)).astype(dtype.numpy)
    agree(work, [x, np.zeros(5, result.numpy)], target)


def test_argmax_takes_the_first_of_equals_and_of_nans(target):
    x = np.zeros((4, 130), np.float32)
    x[0, [70, 6, 129]] = 5
    x[1, [128, 64, 100]] = np.nan
    x[2] = -np.inf
    x[3, 40] = -np.inf
    for combine, wanted in (("argmax", [6, 64, 0, 0]), ("argmin", [0, 64, 0, 40])):
        got, _ = launch(reduction(combine, F, 4, 130)[0], [x, np.zeros(4, np.int64)], target)
        assert list(got[1]) == wanted


def test_sum_of_negative_zeros_and_of_nothing(target):
    for n, sign in ((3, True), (0, False)):
        work, _ = reduction("sum", F, 2, n)
        got, _ = launch(work, [np.full((2, n), -0.0, np.float32), np.ones(2, np.float32)], target)
        assert np.all(got[1] == 0) and np.all(np.signbit(got[1]) == sign)


def softmax_stages(n, heavy):
    """max, sum of exp, log-sum-exp stored for each row, and the softmax itself."""
    top, total, point, last = Body(), Body(), Body(), Body()
    top.load(0, (n, 1))

    def shifted(body):
        x = body.add("sub", (body.load(0, (n, 1)), body.add("carry", (), (0, 0))))
        return body.add("exp", (body.add("tanh", (x,)),)) if heavy else body.add("exp", (x,))
    shifted(total)
    log = point.add("log", (point.add("carry", (), (1, 0)),))
    stored = point.add("add", (log, point.add("carry", (), (0, 0))))
    inverse = point.add("div", (point.const(1.0), point.add("carry", (), (1, 0))))
    y = last.add("mul", (shifted(last), last.add("carry", (), (2, inverse))))
    return (Stage("reduce", top.done, (), "max"), Stage("reduce", total.done, (), "sum"),
            Stage("point", point.done, (store(1, (1, 0), stored),)), Stage("map", last.done, (store(2, (n, 1), y),)))


@pytest.mark.parametrize("heavy", [False, True])
@pytest.mark.parametrize("rows, n", [(3, 10), (50, 130), (2, 64), (4, 0), (0, 4)])
def test_stages_of_a_softmax(rows, n, heavy, target):
    work = item(row((rows, n), *softmax_stages(n, heavy)), [F], [F, F])
    x = np.random.default_rng(0).normal(size=(rows, n)).astype(np.float32)
    arrays = [x, np.zeros(rows, np.float32), np.zeros((rows, n), np.float32)]
    if n == 0:
        assert launch(work, arrays, target)[0][2].size == 0
        return
    wanted = perform(work, arrays)
    first, _ = launch(work, arrays, target)
    np.testing.assert_allclose(first[1], wanted[1], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(first[2], wanted[2], rtol=1e-5, atol=1e-7)
    for threads in (2, 3, 7):
        for a, b in zip(first, launch(work, arrays, target, threads=threads, seed=threads)[0]):
            assert same(a, b)


def test_bits_do_not_depend_on_the_instruction_set():
    work = item(row((9, 333), *softmax_stages(333, True)), [F], [F, F])
    x = np.random.default_rng(0).normal(size=(9, 333)).astype(np.float32)
    results = [launch(work, [x, np.zeros(9, np.float32), np.zeros_like(x)], t)[0] for t in TARGETS]
    for other in results[1:]:
        assert all(same(a, b) for a, b in zip(results[0], other))


def test_interpreter_runs_whole_kernels():
    work = item(row((2, 70), *softmax_stages(70, False)), [F], [F, F])
    x = np.random.default_rng(0).normal(size=(2, 70)).astype(np.float32)
    arrays = [x, np.zeros(2, np.float32), np.zeros_like(x)]
    for a, b in zip(launch(work, arrays, None)[0], launch(work, arrays, TARGETS[0])[0]):
        assert same(a, b)


def test_outer_dimensions_of_a_reduction(target):
    """Four dimensions, two of which are one; the row is strided."""
    body, point = Body(), Body()
    body.add("mul", (body.load(0, (5 * 3 * 20, 3 * 20, 20, 2)), body.load(1, (0, 1, 0, 0))))
    stored = store(2, (15, 3, 1, 0), point.add("carry", (), (0, 0)))
    work = item(row((2, 5, 3, 10), Stage("reduce", body.done, (), "sum"), Stage("point", point.done, (stored,))), [F, F], [F])
    agree(work, [samples(F, (2, 5, 3, 20)), samples(F, (5,), 1), np.zeros((2, 5, 3), np.float32)], target)


def test_unknown_reduction_is_named():
    nest = row((2, 3), Stage("reduce", (Instr("load", (), Access(0, (3, 1)), F),), (), "median"))
    with pytest.raises(KernelError, match="median"):
        lower(item(nest, [F], []), TARGETS[0], 1)
