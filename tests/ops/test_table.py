"""Every check that follows from a row of the table."""

from __future__ import annotations

import dataclasses
import zlib

import numpy as np
import pytest

import renaissance as rn
from renaissance import engine
from renaissance.ir.dtype import dtype as dtype_of
from renaissance.ops.value import WITH_GRADIENT

from .table import TABLE, TOLERANCE

ROWS = [pytest.param(case, id=case.name) for case in TABLE]
WITH_GRADIENTS = [pytest.param(case, id=case.name) for case in TABLE if case.grad]


def draw(case, shapes, dtype="float32", seed=0):
    """Arguments in the dtype under test, as arrays."""
    rng = np.random.default_rng([seed, zlib.crc32(case.name.encode())])
    return [rng.uniform(*case.domain, size=s).astype(dtype_of(dtype).numpy) for s in shapes]


def assert_near(got, expected, dtype, loose=1.0):
    got, expected = np.asarray(got).astype(np.float64), np.asarray(expected, np.float64)
    assert got.shape == expected.shape
    scale = TOLERANCE[dtype] * loose
    np.testing.assert_allclose(got, expected, rtol=scale, atol=scale * max(1.0, np.abs(expected).max(initial=0)))


@pytest.mark.parametrize("case", ROWS)
def test_values_against_numpy_in_float64(case):
    for dtype in case.dtypes:
        for shapes in case.shapes:
            arrays = draw(case, shapes, dtype)
            out = case.call(*map(rn.tensor, arrays))
            promised = (out.shape, out.dtype)
            got = out.numpy()
            with np.errstate(all="ignore"):
                expected = np.asarray(case.ref(*(a.astype(np.float64) for a in arrays)))
            assert promised == (got.shape, dtype_of(got.dtype))
            assert got.shape == expected.shape
            if expected.dtype.kind == "f" and got.dtype.kind not in "biu":
                assert_near(got, expected, dtype, case.loose)
            else:
                np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("case", ROWS)
def test_executors_agree_and_a_second_run_compiles_nothing(case):
    for shapes in case.shapes:
        arrays = draw(case, shapes, seed=1)
        tensors = [rn.tensor(a) for a in arrays]
        got = case.call(*tensors).numpy()
        made = len(engine._programs)
        np.testing.assert_array_equal(case.call(*tensors).numpy(), got)
        assert len(engine._programs) == made
        np.testing.assert_array_equal(rn.compile(case.call)(*tensors).numpy(), got)
        with rn.executor("reference"):
            reference = case.call(*tensors).numpy()
        if got.dtype.kind == "f":
            assert_near(got, reference, "float32", case.loose)
        else:
            np.testing.assert_array_equal(got, reference)


@pytest.mark.parametrize("case", ROWS)
def test_bits_do_not_depend_on_threads_or_on_what_is_computed_first(case, monkeypatch):
    settings = engine.settings()
    for shapes in case.shapes:
        arrays = draw(case, shapes, seed=2)
        results = []
        for threads in (1, 2, 3, 7):
            monkeypatch.setattr(engine, "settings", lambda t=threads: dataclasses.replace(settings, threads=t))
            engine._programs.clear()
            tensors = [rn.tensor(a) * 1.0 for a in arrays]
            if threads > 1:
                rn.realize(*tensors)
            results.append(case.call(*tensors).numpy().copy())
        for other in results[1:]:
            np.testing.assert_array_equal(results[0], other)
    engine._programs.clear()


@pytest.mark.parametrize("case", ROWS)
def test_views_as_arguments(case):
    """The same numbers through a transpose, a reversal, and a slice of something larger."""
    for shapes in case.shapes:
        arrays = draw(case, shapes, seed=3)
        expected = case.call(*map(rn.tensor, arrays)).numpy()
        turned = [rn.tensor(np.array(a.T, order="C")).permute_dims(tuple(range(a.ndim))[::-1]) for a in arrays]
        flipped = [rn.flip(rn.tensor(np.array(np.flip(a), order="C"))) for a in arrays]
        cut = [rn.tensor(np.pad(a, 2, constant_values=np.nan))[(slice(2, -2),) * a.ndim] if a.ndim else rn.tensor(a) for a in arrays]
        for views in (turned, flipped, cut):
            np.testing.assert_array_equal(case.call(*views).numpy(), expected)


@pytest.mark.parametrize("case", WITH_GRADIENTS)
def test_gradients_along_a_random_direction(case):
    """<J v, w> by central differences in float64 equals <v, J^T w>."""
    if "float64" not in case.dtypes:
        case = dataclasses.replace(case, dtypes=("float64",))
    for shapes in case.shapes:
        arrays = draw(case, shapes, "float64", seed=4)
        rng = np.random.default_rng(5)
        directions = [rng.standard_normal(a.shape) for a in arrays]
        step = 1e-6
        ahead, behind = ([a + s * step * d for a, d in zip(arrays, directions)] for s in (1, -1))
        with np.errstate(all="ignore"):
            change = (np.asarray(case.ref(*ahead)) - np.asarray(case.ref(*behind))) / (2 * step)
        out, pull = rn.vjp(case.call, *map(rn.tensor, arrays))
        w = rng.standard_normal(out.shape)
        grads = pull(rn.tensor(w))
        inner = sum((g.numpy() * d).sum() for g, d in zip(grads, directions))
        assert all(g.shape == a.shape for g, a in zip(grads, arrays))
        np.testing.assert_allclose(inner, (change * w).sum(), rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("case", WITH_GRADIENTS)
def test_second_derivatives_along_random_directions(case):
    """The gradient of <J^T w, v>, along u, is how <J^T w, v> changes along u: gradient rules have gradients as well."""
    arrays = draw(case, case.shapes[-1], "float64", seed=8)
    rng = np.random.default_rng(9)
    v, u = ([rng.standard_normal(a.shape) for a in arrays] for _ in range(2))
    w = rn.tensor(rng.standard_normal(case.call(*map(rn.tensor, arrays)).shape))

    def slope(*xs):
        grads = rn.vjp(case.call, *xs)[1](w)
        return rn.stack([(g * rn.tensor(d)).sum() for g, d in zip(grads, v)]).sum()

    step = 1e-5
    ahead, behind = (slope(*(rn.tensor(a + s * step * d) for a, d in zip(arrays, u))).item() for s in (1, -1))
    second = rn.grad(slope, tuple(range(len(arrays))))(*map(rn.tensor, arrays))
    np.testing.assert_allclose(sum((g.numpy() * d).sum() for g, d in zip(second, u)), (ahead - behind) / (2 * step),
                               rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("case", WITH_GRADIENTS)
def test_stated_gradients_equal_derived_ones(case, monkeypatch):
    """Where a composition states its gradient, leaving the statement out must give the same, in float64."""
    def gradients():
        arrays = draw(case, case.shapes[-1], "float64", seed=6)
        out, pull = rn.vjp(case.call, *map(rn.tensor, arrays))
        return [g.numpy().copy() for g in pull(rn.tensor(np.random.default_rng(7).standard_normal(out.shape)))]

    stated = gradients()
    derived_rule = lambda ct, out, inputs, rule: (ct, *(None for _ in inputs[1:]))  # noqa: E731
    object.__setattr__(WITH_GRADIENT, "vjp", derived_rule)
    try:
        derived = gradients()
    finally:
        object.__setattr__(WITH_GRADIENT, "vjp", lambda ct, out, inputs, rule: (None, *rule(ct, out, inputs[1:])))
    for a, b in zip(stated, derived, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


ERRORS = [pytest.param(case, e, id=f"{case.name}: {e[2]}") for case in TABLE for e in case.errors]


@pytest.mark.parametrize(("case", "error"), ERRORS)
def test_declared_errors(case, error):
    arrays, kind, message = error
    with pytest.raises(kind) as caught:
        case.call(*map(rn.tensor, arrays))
    assert message in str(caught.value)
