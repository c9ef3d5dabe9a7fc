"""Contractions: every form, dtype and instruction set against float64; order of sums; cuts; bodies before and after; corners."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest

from renaissance.errors import KernelError
from renaissance.ir.dtype import bfloat16, bool_, float16, float32, float64, int64, uint32
from renaissance.ir.philox import philox_uint32
from renaissance.ir.plan import Access, Instr, Operand
from renaissance.kernels.schedules.contraction import lower_contraction
from tests.kernels.jit import TARGETS
from tests.kernels.products import (
    FORMS,
    Form,
    chain,
    constant,
    launch,
    load,
    matrices,
    product,
    run_product,
    same_bits,
    stored,
    strides,
    with_epilogue,
)

HOST = TARGETS[0]
NN, NT = Form("n", "n"), Form("n", "t")
TOLERANCE = {float32: 2e-6, bfloat16: 2e-6, float64: 4e-15}  # of the largest sum of absolute products
isas = pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.isa)
dtypes = pytest.mark.parametrize("of", [float32, bfloat16, float64], ids=lambda d: d.name)
forms = pytest.mark.parametrize("form", FORMS, ids=lambda f: f.a + f.b)


def assert_near(c, a, b, of):
    a, b = a.astype(np.float64), b.astype(np.float64)
    scale = (np.abs(a) @ np.abs(b)).max(initial=1e-300)
    np.testing.assert_allclose(c, a @ b, rtol=0, atol=TOLERANCE[of] * scale)


@isas
@dtypes
@forms
def test_forms(form, of, target):
    for batch, m, n, k in [(3, 33, 70, 45), (1, 33, 70, 64), (1, 5, 10, 17)]:
        a, b, c = run_product(form, (m, n, k), of, target, batch=batch)
        assert_near(c, a, b, of)


@isas
@dtypes
def test_smallest(of, target):
    for m, n, k in [(1, 1, 1), (5, 3, 2)]:
        a, b, c = run_product(NT, (m, n, k), of, target)
        assert_near(c, a, b, of)


@pytest.mark.parametrize("of", [float32, bfloat16], ids=lambda d: d.name)
@forms
def test_many_rows_or_columns(form, of):
    for m, n, k in [(200, 70, 64), (200, 10, 256), (10, 256, 200)]:
        a, b, c = run_product(form, (m, n, k), of, HOST, threads=2)
        assert_near(c, a, b, of)


@isas
@dtypes
def test_operands_contiguous_nowhere(of, target):
    a, b, c = run_product(Form("s", "s"), (33, 70, 45), of, target)
    assert_near(c, a, b, of)


@isas
@forms
def test_sums_are_one_chain_in_k_order(form, target):
    a, b, c = run_product(form, (33, 70, 45), float32, target)
    assert same_bits(c, chain(a, b))


@isas
@forms
def test_bfloat16_sums_are_one_chain(form, target):
    for k in (45, 64):
        a, b, c = run_product(form, (33, 70, k), bfloat16, target)
        assert same_bits(c, chain(a, b, pairs=target.bf16_dot))


def test_the_chain_goes_on_over_blocks_of_k():
    for of, k in ((float32, 1500), (bfloat16, 2501)):
        for form in FORMS:
            a, b, c = run_product(form, (33, 70, k), of, HOST)
            assert same_bits(c, chain(a, b, pairs=of is bfloat16 and HOST.bf16_dot))


@dtypes
def test_the_longest_reduction(of):
    a, b, c = run_product(NT, (3, 5, 65536), of, HOST)
    a, b = a.astype(np.float64), b.astype(np.float64)
    tolerance = 65536**0.5 * (1e-16 if of is float64 else 1e-7) * (np.abs(a) @ np.abs(b)).max()
    assert np.abs(c - a @ b).max() < tolerance


@dtypes
@forms
def test_cuts_do_not_change_bits(form, of):
    """Threads, order of chunks, tile heights (registers) and the sizes of groups, bands and blocks (cache)."""
    size = 211, 300, 1100
    reference = run_product(form, size, of, HOST)[2]
    few_registers, small_cache = replace(HOST, registers=16), replace(HOST, l2_bytes=64 << 10)
    for target, threads, backwards in [(HOST, 2, False), (HOST, 7, True), (HOST, 64, False), (few_registers, 1, False),
                                       (small_cache, 3, True)]:
        assert same_bits(run_product(form, size, of, target, threads=threads, backwards=backwards)[2], reference)


@pytest.mark.parametrize(("form", "m", "k", "way"), [(NN, 30, 1024, "rows"), (Form("t", "n"), 30, 600, "columns")])
def test_plain_operands_that_are_packed(form, m, k, way):
    """A whose rows would evict each other in a small cache, and one read across a long k."""
    target = replace(HOST, l1_bytes=32 << 10)
    assert f"_{way}_" in lower_contraction(product(form, m, 300, k, float32), target, 1).key
    a, b, c = run_product(form, (m, 300, k), float32, target)
    assert same_bits(c, chain(a, b))


@pytest.mark.parametrize("of", [float32, float64], ids=lambda d: d.name)
def test_instruction_sets_agree(of):
    results = [run_product(NT, (33, 70, 45), of, target)[2] for target in TARGETS]
    assert all(same_bits(r, results[0]) for r in results)


def test_small_work_is_one_chunk_and_large_work_is_shared():
    assert lower_contraction(product(NT, 128, 45, 10, float32), HOST, 8).chunks == 1
    assert lower_contraction(product(NT, 128, 45, 45, float32), HOST, 8).chunks == 2
    assert lower_contraction(product(NT, 200, 1024, 784, float32), HOST, 2).chunks >= 2
    assert lower_contraction(product(NT, 200, 1024, 784, float32), HOST, 8).chunks >= 8


def test_objects_are_shared_by_sizes():
    def key(m, n, k, form=NT):
        return lower_contraction(product(form, m, n, k, float32), HOST, 2).key

    assert key(200, 1024, 784) == key(200, 256, 512) == key(4000, 64, 100)
    assert key(200, 1024, 784) != key(200, 1024, 784, NN)
    assert key(200, 1024, 784) != key(100, 1024, 784)  # tiles of other heights


def test_threads_share_the_chunks():
    m, n, k = 211, 300, 150
    item = product(NT, m, n, k, float32)
    a, b = matrices(m, n, k, float32)
    expected = launch(item, [a, stored(b, "t"), np.zeros((1, m, n), np.float32)], HOST)[2]
    results = [None] * 3

    def work(i):
        results[i] = launch(item, [a, stored(b, "t"), np.zeros((1, m, n), np.float32)], HOST, threads=i + 2)[2]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(results))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(same_bits(r, expected) for r in results)


@isas
@dtypes
def test_empty_reduction_gives_zero_to_the_epilogue(of, target):
    for m in (5, 33):
        assert (run_product(NN, (m, 70, 0), of, target)[2] == 0).all()
    out = float64 if of is float64 else float32
    body = [Instr("acc", (), None, out), constant(3, out), Instr("sub", (1, 0), None, out)]
    item = with_epilogue(product(NN, 5, 33, 0, of), body, [(2, (165, 33, 1), 2)], [out], [2])
    a, b = matrices(5, 33, 0, of)
    assert (launch(item, [a, b, np.zeros((1, 5, 33), out.numpy)], target)[2] == 3).all()


@isas
def test_empty_results(target):
    for batch, m, n in [(0, 4, 4), (1, 0, 4), (1, 4, 0)]:
        assert run_product(NN, (m, n, 8), float32, target, batch=batch)[2].size == 0


@isas
@dtypes
def test_numbers_that_are_not_finite_stay_in_their_row_and_column(of, target):
    a, b = matrices(33, 70, 45, of)
    a[0, 7, 3], a[0, 20, 44], b[0, 44, 11] = np.nan, np.inf, -np.inf
    for form in (NN, NT):
        item = product(form, 33, 70, 45, of)
        c = launch(item, [stored(a, form.a), stored(b, form.b), np.zeros((1, 33, 70), item.operands[2].dtype.numpy)], target)[2]
        with np.errstate(invalid="ignore"):
            expected = a.astype(np.float64) @ b.astype(np.float64)
        assert (np.isnan(c) == np.isnan(expected)).all() and (np.isinf(c) == np.isinf(expected)).all()


# ---- bodies -----------------------------------------------------------------------------------------------------------------


def acc(of=float32):
    return Instr("acc", (), None, of)


def relu(value, of=float32):
    """`value` is the number of the instruction before; two instructions."""
    return [constant(0, of), Instr("maximum", (value, value + 1), None, of)]


@isas
@pytest.mark.parametrize("n", [70, 64, 10])
def test_bias_activation_and_three_stores(n, target):
    m, k = 33, 45
    body = [acc(), load(5, (0, 0, 1), float32), Instr("add", (0, 1), None, float32), *relu(2),
            Instr("cast", (4,), None, bfloat16), Instr("lt", (3, 2), None, bool_)]
    rows = (m * n, n, 1)
    item = with_epilogue(product(NT, m, n, k, float32), body, [(2, rows, 4), (3, rows, 5), (4, rows, 6)],
                         [float32, bfloat16, bool_, float32], [2, 3, 4])
    a, b = matrices(m, n, k, float32)
    bias = np.linspace(-5, 5, n, dtype=np.float32)
    out = [np.zeros((1, m, n), d) for d in (np.float32, bfloat16.numpy, np.bool_)]
    _, _, y, y16, mask, _ = launch(item, [a, stored(b, "t"), *out, bias], target)
    expected = np.maximum(chain(a, b) + bias, 0)
    assert same_bits(y, expected) and same_bits(y16, expected.astype(bfloat16.numpy)) and same_bits(mask, expected > 0)


@isas
def test_residual_in_place_and_run_time_scale(target):
    m, n, k = 29, 50, 40
    rows = (m * n, n, 1)
    body = [acc(), Instr("scalar", (), 0, float32), Instr("mul", (0, 1), None, float32), load(3, rows, float32),
            Instr("add", (2, 3), None, float32)]
    item = with_epilogue(product(NN, m, n, k, float32), body, [(2, rows, 4)], [float32, float32], [2])
    a, b = matrices(m, n, k, float32)
    residual = np.random.default_rng(1).standard_normal((1, m, n)).astype(np.float32)
    out = launch(item, [a, b, residual, residual], target, scalars=[0.3], same=[(2, 3)])[2]
    assert same_bits(out, chain(a, b) * np.float32(0.3) + residual)


def update_in_place(form, m, n, k, of, batch=1):
    """An update of a parameter and its two states by a product: what moves more memory than the product."""
    wide = float64 if of is float64 else float32
    rows = (m * n, n, 1)
    states = [load(place, rows, wide) for place in (5, 6, 7)]
    body = [acc(wide), *states, Instr("mul", (0, 0), None, wide), Instr("add", (2, 0), None, wide), Instr("add", (3, 4), None, wide),
            Instr("sub", (1, 5), None, wide)]
    stores = [(2, rows, 7), (3, rows, 5), (4, rows, 6)]
    return with_epilogue(product(form, m, n, k, of, batch=batch), body, stores, [wide] * 6, [2, 3, 4])


@isas
@dtypes
@pytest.mark.parametrize("form", [NN, Form("t", "n"), NT], ids=lambda f: f.a + f.b)
def test_updates_in_whole_rows(form, of, target):
    for batch, m, n, k in [(1, 33, 70, 45), (3, 29, 64, 30), (2, 5, 150, 1), (1, 16, 300, 0), (1, 0, 900, 7)]:
        item = update_in_place(form, m, n, k, of, batch)
        assert ("_rows" in lower_contraction(item, target, 2).key) == (m > 0)
        a, b = matrices(m, n, k, of, batch=batch)
        wide = np.float64 if of is float64 else np.float32
        p, first, second = np.random.default_rng(3).standard_normal((3, batch, m, n)).astype(wide)
        arrays = [stored(a, form.a), stored(b, form.b), p, first, second, p, first, second]
        results = []
        for threads in (1, 3):
            results.append(launch(item, arrays, target, same=[(2, 5), (3, 6), (4, 7)], threads=threads)[2:5])
            assert all(same_bits(x, y) for x, y in zip(results[0], results[-1]))
        g = run_product(form, (m, n, k), of, target, batch=batch)[2]
        for got, expected in zip(results[0], (p - (first + g), first + g, second + g * g)):
            assert same_bits(got, expected)


@pytest.mark.parametrize("l2_bytes", [1 << 14, 1 << 16])
def test_whole_rows_in_bands_of_columns(l2_bytes):
    m, n, k = 30, 700, 50
    item, target = update_in_place(NN, m, n, k, float32), replace(HOST, l2_bytes=l2_bytes)
    a, b = matrices(m, n, k, float32)
    p, first, second = np.random.default_rng(3).standard_normal((3, 1, m, n)).astype(np.float32)
    out = launch(item, [a, b, p, first, second, p, first, second], target, same=[(2, 5), (3, 6), (4, 7)], threads=2)
    assert same_bits(out[2], p - (first + chain(a, b)))


@isas
def test_gradient_mask_and_dropout(target):
    """dX * (activation > 0) * (random word > limit), the word drawn at the element's place."""
    m, n, k = 20, 45, 16
    rows = (m * n, n, 1)
    body = [acc(), load(3, rows, bfloat16), constant(0, bfloat16), Instr("lt", (2, 1), None, bool_), constant(0),
            Instr("where", (3, 0, 4), None, float32), Instr("coord", (), 1, int64), constant(n, int64),
            Instr("mul", (6, 7), None, int64), Instr("coord", (), 2, int64), Instr("add", (8, 9), None, int64),
            Instr("philox", (10,), (0, 1), uint32), constant(1 << 31, uint32), Instr("lt", (12, 11), None, bool_),
            Instr("where", (13, 5, 4), None, float32)]
    item = with_epilogue(product(NN, m, n, k, float32), body, [(2, rows, 14)], [float32, bfloat16], [2])
    a, b = matrices(m, n, k, float32)
    activation = np.random.default_rng(2).standard_normal((1, m, n)).astype(bfloat16.numpy)
    out = launch(item, [a, b, np.zeros((1, m, n), np.float32), activation], target, scalars=[11, 5])[2]
    words = philox_uint32(11, 5, np.arange(m * n)).reshape(1, m, n)
    assert same_bits(out, np.where((words > 1 << 31) & (activation > 0), chain(a, b), np.float32(0)))


@isas
@pytest.mark.parametrize("layout", ["t", "s"])
def test_results_transposed_and_strided(layout, target):
    m, n, k = 21, 37, 18
    at = strides(layout, m, n)
    item = with_epilogue(product(NT, m, n, k, float32), [acc(), load(3, (0, 0, 1), float32), Instr("add", (0, 1), None, float32)],
                         [(2, at, 2)], [float32, float32], [2])
    a, b = matrices(m, n, k, float32, batch=1)
    bias = np.arange(n, dtype=np.float32)
    before = stored(np.full((1, m, n), 7, np.float32), layout)
    out = launch(item, [a, stored(b, "t"), before, bias], target)[2]
    out = out.swapaxes(1, 2) if layout == "t" else out[:, :, ::2]
    assert same_bits(np.ascontiguousarray(out), chain(a, b) + bias)


def computed(operand, at, vector, step, of):
    """relu(x * s[k]) + 1, in a dtype: the body of an operand that is computed while packing; not 0 where nothing is loaded."""
    return [load(operand, at, of), load(vector, step, of), Instr("mul", (0, 1), None, of), *relu(2, of), constant(1, of),
            Instr("add", (4, 5), None, of)]


@isas
@dtypes
@forms
def test_operands_computed_while_packing(form, of, target):
    m, n, k = 18, 39, 35
    item = product(form, m, n, k, of)
    out = item.operands[2].dtype
    spec = replace(item.spec, a=tuple(computed(0, strides(form.a, m, k), 3, (0, 0, 1), of)),
                   b=tuple(computed(1, strides(form.b, k, n), 4, (0, 1, 0), of)))
    item = replace(item, spec=spec, operands=(*item.operands, Operand(3, of, "in"), Operand(4, of, "in")))
    a, b = matrices(m, n, k, of)
    s = np.linspace(0.5, 2, k).astype(of.numpy)
    c = launch(item, [stored(a, form.a), stored(b, form.b), np.zeros((1, m, n), out.numpy), s, s], target)[2]
    one = of.numpy.type(1)
    a, b = np.maximum(a * s, 0 * one) + one, np.maximum(b * s[:, None], 0 * one) + one
    assert_near(c, a, b, of)
    if of is not float64:
        assert same_bits(c, chain(a, b, pairs=of is bfloat16 and target.bf16_dot))


@isas
def test_float32_operands_cast_to_bfloat16_while_packing(target):
    for form in FORMS:
        item = product(form, 30, 50, 41, float32)
        a_body, b_body = ((*body, Instr("cast", (0,), None, bfloat16)) for body in (item.spec.a, item.spec.b))
        item = replace(item, spec=replace(item.spec, dtype=bfloat16, a=a_body, b=b_body))
        a, b = matrices(30, 50, 41, float32)
        c = launch(item, [stored(a, form.a), stored(b, form.b), np.zeros((1, 30, 50), np.float32)], target)[2]
        assert same_bits(c, chain(a.astype(bfloat16.numpy), b.astype(bfloat16.numpy), pairs=target.bf16_dot))


@isas
@pytest.mark.parametrize("layout", ["n", "t"])
def test_masked_loads_in_an_operand_read_nothing_where_the_mask_is_off(layout, target):
    """A zero-padded operand: columns of k from 9 on do not exist in memory."""
    m, n, k, width = 15, 20, 17, 9
    body = (Instr("coord", (), 2, int64), constant(width, int64), Instr("lt", (0, 1), None, bool_),
            Instr("load", (2,), Access(0, (0, *strides(layout, m, width)[1:])), float32))
    item = product(NN, m, n, k, float32)
    item = replace(item, spec=replace(item.spec, a=body))
    a, b = matrices(m, n, k, float32)
    a[:, :, width:] = 0
    c = launch(item, [stored(a[:, :, :width], layout), b, np.zeros((1, m, n), np.float32)], target)[2]
    assert same_bits(c, chain(a, b))


def test_a_matrix_shared_by_the_batch():
    batch, m, n, k = 3, 33, 20, 24
    item = product(NN, m, n, k, float32, batch=batch)
    item = replace(item, spec=replace(item.spec, b=(load(1, (0, n, 1), float32),)))
    a, b = matrices(m, n, k, float32, batch=batch)
    c = launch(item, [a, b[0], np.zeros((batch, m, n), np.float32)], HOST, threads=2)[2]
    assert same_bits(c, chain(a, b[:1].repeat(batch, axis=0)))


def test_offsets_of_accesses():
    """Operands that begin inside their buffer."""
    m, n, k = 16, 33, 20
    item = product(NN, m, n, k, float32)
    spec = replace(item.spec, a=(Instr("load", (), Access(0, (0, k, 1), 5), float32),))
    a, b = matrices(m, n, k, float32)
    flat = np.concatenate([np.full(5, np.nan, np.float32), a.ravel()])
    c = launch(replace(item, spec=spec), [flat, b, np.zeros((1, m, n), np.float32)], HOST)[2]
    assert same_bits(c, chain(a, b))


def test_other_dtypes_are_refused():
    with pytest.raises(KernelError, match="float16.*supported are float32, bfloat16, float64"):
        lower_contraction(product(NN, 4, 4, 4, float16), HOST, 1)
