"""Convolutions by minimal filtering: sizes, instruction sets and cuts against float64; bodies before and after; corners."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from renaissance.ir import dtype as dt
from renaissance.kernels.lower import lower
from renaissance.kernels.schedules.winograd import in_two
from renaissance.ops.winograd import WINOGRAD_SUMS, WINOGRAD_WEIGHTS
from tests.kernels.filtering import (
    Case,
    direct,
    direct_gradient,
    forward,
    plain,
    run_forward,
    run_gradient,
    run_sums,
    sums,
    transformed,
    with_bodies,
)
from tests.kernels.jit import TARGETS
from tests.kernels.launch import Body, launch, store
from tests.kernels.products import same_bits

HOST = TARGETS[0]
CASES = [Case(1, 12, 12, 16, 32), Case(2, 5, 7, 3, 17), Case(2, 5, 7, 3, 17, tile=2), Case(3, 13, 14, 40, 40),
         Case(1, 1, 1, 17, 3, tile=2), Case(1, 1, 1, 3, 3), Case(1, 9, 8, 20, 50, padding=((0, 2), (2, 1))),
         Case(1, 224, 3, 3, 5), Case(2, 6, 5, 33, 64, tile=2, padding=((0, 0), (0, 0)))]
isas = pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.isa)
cases = pytest.mark.parametrize("case", CASES, ids=str)


def assert_near(got, want, tolerance=1e-5):
    np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * np.abs(want).max())


@cases
def test_forward(case):
    assert_near(run_forward(case, HOST), direct(case, case.image(), case.kernels()))


@cases
def test_gradient(case):
    want = direct_gradient(case, case.image(), case.places())
    tiles = case.windows.tiles
    for blocks, groups in {(1, 1), (min(tiles, 3), min(tiles, 2)), (min(tiles, 8), 4 if tiles >= 8 else 1)}:
        m = run_sums(case, HOST, blocks=blocks, groups=groups)
        assert not np.isnan(m).any()
        assert_near(run_gradient(case, m, HOST), want)


@pytest.mark.parametrize("case", CASES[1:4], ids=str)
def test_what_lies_between_the_kernels_is_as_stated(case):
    w = case.kernels()
    u = WINOGRAD_WEIGHTS.reference([w[:, :, None]], case.tile, case.width, None)  # type: ignore[misc]
    assert_near(transformed(case, w, HOST), u, 1e-6)
    m = WINOGRAD_SUMS.reference(  # type: ignore[misc]
        [case.image()[:, None], case.places()[:, None]], case.tile, case.padding, case.width, 3, 2, None)
    assert_near(run_sums(case, HOST, blocks=3, groups=2), m, 1e-6)


def test_instruction_sets_agree():
    for case in CASES[1:4]:
        case = replace(case, width=32)
        results = [run_forward(case, target) for target in TARGETS]
        assert all(same_bits(r, results[0]) for r in results)
        m = [run_sums(case, target, blocks=4, groups=2) for target in TARGETS]
        assert all(same_bits(x, m[0]) for x in m)
        assert len({run_gradient(case, m[0], target).tobytes() for target in TARGETS}) == 1


@isas
def test_a_panel_is_two_vectors_on_each_of_them(target):
    case = replace(CASES[3], width=2 * target.lanes)
    assert same_bits(run_forward(case, target), run_forward(CASES[3], HOST))
    m = run_sums(case, target, blocks=4, groups=2)
    assert same_bits(run_gradient(case, m, target), run_gradient(CASES[3], run_sums(CASES[3], HOST, blocks=4, groups=2), HOST))


def test_the_interpreter_agrees():
    case = Case(1, 5, 3, 5, 3, tile=2)
    assert same_bits(run_forward(case, None), run_forward(case, HOST))
    m = run_sums(case, None, blocks=2, groups=2)
    assert same_bits(m, run_sums(case, HOST, blocks=2, groups=2))
    assert same_bits(run_gradient(case, m, None), run_gradient(case, m, HOST))


def test_cuts_do_not_change_bits():
    """Threads, the order of chunks, and the sizes of blocks (cache) and of register tiles (registers)."""
    case = Case(2, 40, 40, 24, 80)
    reference, m = run_forward(case, HOST), run_sums(case, HOST, blocks=7, groups=2)
    small, few = replace(HOST, l2_bytes=16 << 10), replace(HOST, registers=16)
    for target, threads in [(HOST, 2), (HOST, 3), (HOST, 64), (small, 1), (few, 2)]:
        assert same_bits(run_forward(case, target, threads=threads, seed=threads), reference)
        assert same_bits(run_sums(case, target, blocks=7, groups=2, threads=threads, seed=threads), m)
        assert same_bits(run_gradient(case, m, target, threads=threads), run_gradient(case, m, HOST))


@isas
def test_bfloat16_images(target):
    case = Case(2, 7, 6, 19, 20)
    y = run_forward(case, target, of=dt.bfloat16)
    assert_near(y, direct(case, case.image(dt.bfloat16), case.kernels()))
    m = run_sums(case, target, blocks=2, groups=2, of=dt.bfloat16)
    assert_near(run_gradient(case, m, target), direct_gradient(case, case.image(dt.bfloat16), case.places(dt.bfloat16)))


def shifted(extents, operand=0, scale=1, words=1):
    """relu(x * scale + 1), and then words - 1 times the same again: 1 where x is 0."""
    b = Body()
    value = b.load(operand, plain(0, extents)[0].attr.strides)  # type: ignore[union-attr]
    factor, one, zero = b.load(scale, (0, 0, 0, 1)), b.const(1.0), b.const(0.0)
    for _ in range(words):
        value = b.add("maximum", (b.add("add", (b.add("mul", (value, factor)), one)), zero))
    return b.done


@isas
@pytest.mark.parametrize("words", [1, 9])
def test_a_body_before_the_transform_is_0_outside_the_image(target, words):
    case = Case(2, 6, 9, 19, 20)
    x, u = case.image(), transformed(case, case.kernels(), target)
    scale = np.random.default_rng(7).standard_normal(case.c).astype(np.float32) / 2
    it = with_bodies(forward(case), [dt.float32] * 3, [dt.float32], x=shifted(x.shape, scale=2, words=words),
                     stores=(store(3, (0, case.k, 1), 0),))
    y = launch(it, [x, u, scale, np.full((2, 6, 9, 20), np.nan, np.float32)], target)[0][3]
    for _ in range(words):
        x = np.maximum(x * scale + np.float32(1), 0)
    assert_near(y, direct(case, x, case.kernels()))


@isas
def test_bodies_before_the_sums(target):
    case = Case(2, 6, 9, 19, 20)
    x, y = case.image(), case.places()
    left, right = (np.random.default_rng(7).standard_normal(n).astype(np.float32) for n in (case.c, case.k))
    it = with_bodies(sums(case, 3, 2), [dt.float32] * 4, [dt.float32], x=shifted(x.shape, scale=2),
                     y=shifted(y.shape, operand=1, scale=3), out=4)
    m = launch(it, [x, y, left, right, np.full((2, *case.panels), np.nan, np.float32)], target)[0][4]
    assert not m[:, :, :, :, case.k:].any()
    x, y = np.maximum(x * left + np.float32(1), 0), np.maximum(y * right + np.float32(1), 0)
    assert_near(run_gradient(case, m, target), direct_gradient(case, x, y))


@isas
@pytest.mark.parametrize("words", [1, 12])
def test_an_epilogue_with_several_results(target, words):
    case = Case(2, 6, 9, 19, 20)
    x, u, rest = case.image(), transformed(case, case.kernels(), target), case.places()
    bias = np.random.default_rng(7).standard_normal(case.k).astype(np.float32)
    b = Body()
    acc = b.add("acc")
    biased = b.add("add", (acc, b.load(2, (0, 0, 1))))
    for _ in range(words - 1):
        biased = b.add("add", (biased, b.load(2, (0, 0, 1))))
    total = b.add("add", (biased, b.load(3, (0, case.k, 1))))
    narrow = b.add("cast", (b.add("maximum", (total, b.const(0.0))),), None, dt.bfloat16)
    columns = 2 * 6 * 9
    it = with_bodies(forward(case), [dt.float32] * 4, [dt.bfloat16, dt.float32], epilogue=b.done,
                     stores=(store(4, (0, case.k, 1), narrow), store(5, (0, 1, columns), biased)))
    outs = [np.full((2, 6, 9, 20), np.nan, dt.bfloat16.numpy), np.full((20, columns), np.nan, np.float32)]
    *_, first, second = launch(it, [x, u, bias, rest, *outs], target)[0]
    want = direct(case, x, case.kernels()) + words * bias.astype(np.float64)
    assert_near(second.T.reshape(want.shape), want)
    assert_near(first.astype(np.float32), np.maximum(want + rest, 0), 1e-2)


def test_two_heights_of_register_tiles_cover_any_count_of_rows():
    for heights in ((14, 8), (6, 4), (1, 1)):
        for rows in range(1, 200):
            high, low = in_two(rows, heights)
            covered = high * heights[0] + low * heights[1]
            least = min(a * heights[0] + b * heights[1] for a in range(201) for b in range(30)
                        if a * heights[0] + b * heights[1] >= rows) if rows < 40 else covered
            assert rows <= covered == least
            assert rows < 36 or covered - rows <= 1


def test_shapes_share_their_code():
    shapes = [Case(16, 56, 56, 128, 128), Case(16, 28, 28, 256, 256), Case(16, 14, 14, 512, 512), Case(128, 32, 32, 64, 64)]
    items = [*map(forward, shapes), *(sums(case, 4, 2) for case in shapes)]
    assert len({lower(item, HOST, 2).key for item in items}) == 2


def test_small_work_is_one_chunk_and_large_work_is_shared():
    assert lowered(Case(1, 4, 4, 16, 16), 8) == 1
    assert lowered(Case(16, 14, 14, 128, 128), 2) % 2 == 0
    assert lowered(Case(1, 14, 14, 256, 256), 8) >= 8


def lowered(case, threads):
    return lower(forward(case), HOST, threads).chunks
