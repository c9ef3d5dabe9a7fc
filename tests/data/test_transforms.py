"""Augmentation: each transform and chains of them against plain NumPy; values that depend on seed, epoch and sample alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

import renaissance as rn
from renaissance.data import (
    ArrayDataset,
    Normalize,
    Pad,
    RandomCrop,
    RandomErasing,
    RandomHorizontalFlip,
    RandomRotation,
    RandomScale,
    Transform,
)
from renaissance.data.draws import SampleDraws
from renaissance.data.transforms import Images, _grid, augmented
from renaissance.errors import ArgumentError, DTypeError, ShapeError
from renaissance.train.batch import TrainingBatches

from .plain_images import GivenDraws, PlainDraws, augment

SEED = 77
CHAIN = [Pad(2), RandomCrop(28), RandomRotation(20), RandomScale(0.8, 1.2), RandomErasing(p=0.5), Normalize(0.1307, 0.3081)]


def images(shape, dtype=np.uint8, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, shape, dtype) if dtype == np.uint8 else rng.standard_normal(shape).astype(dtype)


def ours(stored, samples, chain, seed=SEED, epoch=0):
    draws = SampleDraws(seed)
    draws.epoch = epoch
    return augmented(rn.from_numpy(stored), rn.tensor(np.asarray(samples)), chain, draws).numpy()


def check(stored, samples, chain, epoch=0, tol=2e-5):
    result = ours(stored, samples, chain, epoch=epoch)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, augment(stored, np.asarray(samples), chain, PlainDraws(SEED, epoch)), rtol=0, atol=tol)


# ---- each alone ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(6, 5, 9), (6, 5, 9, 3)], ids=["grey", "color"])
def test_pad_and_crop_move_pixels_unchanged(shape):
    stored, samples = images(shape), [5, 0, 0, 3]
    result = ours(stored, samples, [Pad(3), RandomCrop((6, 4))])
    draws = PlainDraws(SEED)
    ys, xs = np.floor(draws.uniform(samples, 0, 6)).astype(int), np.floor(draws.uniform(samples, 0, 12)).astype(int)
    assert len(set(zip(ys.tolist(), xs.tolist()))) > 1
    for image, sample, y, x in zip(result, samples, ys, xs):
        whole = np.pad(stored[sample].reshape(5, 9, -1), ((3, 3), (3, 3), (0, 0)))
        np.testing.assert_array_equal(image, whole[y:y + 6, x:x + 4].transpose(2, 0, 1).astype(np.float32) * np.float32(1 / 255))


@pytest.mark.parametrize("p, share", [(0.0, 0.0), (1.0, 1.0), (0.5, 0.5)])
@pytest.mark.parametrize("shape", [(1000, 3, 5), (1000, 3, 4, 3)], ids=["grey", "color"])
def test_flips_exchange_left_and_right(shape, p, share):
    stored = images(shape)
    result = ours(stored, np.arange(1000), [RandomHorizontalFlip(p)])
    chosen = PlainDraws(SEED).uniform(np.arange(1000)) < np.float32(p)
    assert abs(chosen.mean() - share) < 0.05
    plain = stored.reshape(*shape[:3], -1).transpose(0, 3, 1, 2).astype(np.float32) * np.float32(1 / 255)
    np.testing.assert_array_equal(result, np.where(chosen[:, None, None, None], plain[..., ::-1], plain))


def test_pad_crop_and_flip_move_pixels_unchanged():
    stored, samples = images((8, 32, 32, 3)), np.arange(8)
    result = ours(stored, samples, [Pad(4), RandomCrop(32), RandomHorizontalFlip()])
    draws = PlainDraws(SEED)
    ys, xs = (np.floor(draws.uniform(samples, 0, 9)).astype(int) for _ in range(2))
    chosen = draws.uniform(samples) < 0.5
    assert 0 < chosen.sum() < 8
    for image, sample, y, x, flip in zip(result, samples, ys, xs, chosen):
        whole = np.pad(stored[sample], ((4, 4), (4, 4), (0, 0)))[y:y + 32, x:x + 32]
        whole = (whole[:, ::-1] if flip else whole).transpose(2, 0, 1)
        np.testing.assert_array_equal(image, whole.astype(np.float32) * np.float32(1 / 255))


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("link", [RandomRotation(35), RandomScale(0.5, 2), RandomErasing(p=1.0, value=0.25), Normalize(0.3, 2)],
                         ids=repr)
def test_each_alone(link, dtype):
    check(images((9, 12, 7, 3), dtype), [8, 1, 1, 0, 4], [link], tol=2e-5 if dtype == np.uint8 else 1e-4)


def test_a_quarter_turn_is_counter_clockwise():
    stored = images((2, 6, 6))
    turned = augmented(rn.from_numpy(stored), rn.tensor([0, 1]), [RandomRotation(90)], GivenDraws(rn.tensor, 90.0)).numpy()
    np.testing.assert_allclose(turned[:, 0] * 255, np.rot90(stored, axes=(1, 2)), atol=1e-3)


def test_scale_enlarges_about_the_centre():
    stored = np.zeros((1, 5, 5), np.float32)
    stored[0, 2, 2], stored[0, 2, 4] = 1, 2
    result = augmented(rn.from_numpy(stored), rn.tensor([0]), [RandomScale(0.5, 2)], GivenDraws(rn.tensor, 1.0, 0.5)).numpy()
    np.testing.assert_allclose(result[0, 0, 2], [0, 0, 1, 2, 0], atol=1e-6)


@pytest.mark.parametrize("p, share", [(0.0, 0.0), (1.0, 1.0), (0.5, 0.5)])
def test_share_of_erased_images(p, share):
    stored = np.ones((1000, 8, 8), np.float32)
    erased = (ours(stored, np.arange(1000), [RandomErasing(p=p)]) == 0).any(axis=(1, 2, 3)).mean()
    assert abs(erased - share) < 0.05


def test_erased_rectangles_keep_area_and_shape():
    stored = np.ones((2000, 32, 32), np.float32)
    hit = ours(stored, np.arange(2000), [RandomErasing(p=1.0, scale=(0.1, 0.2), ratio=(0.5, 2.0))])[:, 0] == 0
    heights, widths = hit.any(axis=2).sum(axis=1), hit.any(axis=1).sum(axis=1)
    areas = hit.sum(axis=(1, 2))
    np.testing.assert_array_equal(areas, heights * widths)  # whole rectangles, inside the image
    assert areas.min() >= 0.08 * 1024 and areas.max() <= 0.22 * 1024
    assert (heights / widths).min() > 0.45 and (heights / widths).max() < 2.2
    assert hit[:, 0].any() and hit[:, -1].any() and hit[:, :, 0].any() and hit[:, :, -1].any()  # every place is reached


def test_every_window_of_a_crop_is_equally_likely():
    stored = np.arange(16, dtype=np.float32).reshape(1, 4, 4).repeat(4500, 0)
    corners = ours(stored, np.arange(4500), [RandomCrop(2)])[:, 0, 0, 0]
    values, counts = np.unique(corners, return_counts=True)
    assert values.tolist() == [0, 1, 2, 4, 5, 6, 8, 9, 10]
    assert counts.min() > 420 and counts.max() < 580  # 500 expected, standard deviation 21


def test_normalize_by_channel():
    stored = images((4, 3, 5, 3))
    check(stored, [2, 0], [Normalize((0.1, 0.5, 0.9), (1.0, 0.5, 0.25))])


# ---- chains ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("samples", [[3], [9, 2, 2, 0, 7, 5, 1]], ids=["batch of 1", "batch of 7"])
@pytest.mark.parametrize("channels", [(), (3,)], ids=["grey", "color"])
def test_the_whole_chain(samples, channels):
    check(images((10, 28, 28, *channels)), samples, CHAIN, epoch=4, tol=1e-4)


links = st.one_of(
    st.integers(0, 3).map(Pad), st.integers(1, 6).map(RandomCrop), st.floats(0, 1).map(RandomHorizontalFlip),
    st.floats(0, 180).map(RandomRotation),
    st.tuples(st.floats(0.4, 1), st.floats(1, 2.5)).map(lambda r: RandomScale(*r)))


@given(geometry=st.lists(links, max_size=5), erase=st.booleans(), shift=st.booleans(), color=st.booleans(),
       seed=st.integers(0, 2**64))
@examples(max_examples=60, deadline=None)
def test_any_chain(geometry, erase, shift, color, seed):
    chain = [*geometry, *([RandomErasing(p=0.7)] if erase else []), *([Normalize(0.2, 0.5)] if shift else [])]
    stored, samples = images((5, 9, 8, *((3,) if color else ()))), np.array([4, 0, 2])
    with rn.executor("reference"):
        try:
            result = ours(stored, samples, chain, seed=seed)
        except ShapeError as e:
            assert "put Pad before it" in str(e)
            return
    np.testing.assert_allclose(result, augment(stored, samples, chain, PlainDraws(seed % 2**64)), rtol=0, atol=2e-4)


def test_kernels_and_reference_agree():
    stored, samples = images((10, 28, 28)), [4, 9, 0]
    with rn.executor("reference"):
        expected = ours(stored, samples, CHAIN)
    np.testing.assert_allclose(ours(stored, samples, CHAIN), expected, atol=1e-5)


# ---- what the values depend on ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def batches():
    chain = [RandomCrop(10), RandomRotation(30), RandomErasing(p=0.5)]
    return TrainingBatches(ArrayDataset(images((40, 12, 12)), np.arange(40), augment=chain), SEED)


def test_values_do_not_depend_on_the_batch(batches):
    compiled = rn.compile(batches)
    order = np.random.default_rng(1).permutation(40)
    x, y = (t.numpy() for t in compiled(rn.tensor(order)))
    np.testing.assert_array_equal(y, order)
    for size in (1, 7, 16):
        for start in range(0, 40, size):
            part = order[start:start + size]
            for made in (compiled(rn.tensor(part)), batches(rn.tensor(part))):  # compiled and not
                np.testing.assert_array_equal(made[0].numpy(), x[start:start + size])
                np.testing.assert_array_equal(made[1].numpy(), part)


def test_values_depend_on_the_epoch_and_come_back_with_it(batches):
    compiled = rn.compile(lambda samples: batches(samples)[0])
    found = []
    for epoch in (0, 1, 2, 0):
        batches.draws.epoch = epoch
        found.append(compiled(rn.tensor(np.arange(40))).numpy())
    np.testing.assert_array_equal(found[0], found[3])
    for a, b in ((0, 1), (1, 2), (0, 2)):
        assert (found[a] != found[b]).any(axis=(1, 2, 3)).mean() > 0.9


def test_seeds_and_draws_are_unlike():
    draws = [SampleDraws(seed) for seed in (1, 2)]
    rows = [d.uniform(rn.tensor(np.arange(500))).numpy() for d in draws for _ in range(3)]
    assert len({row.tobytes() for row in rows}) == 6
    assert np.abs(np.corrcoef(rows) - np.eye(6)).max() < 0.2
    same = SampleDraws(1 + 2**64)  # seeds count modulo 2^64
    np.testing.assert_array_equal(same.uniform(rn.tensor(np.arange(500))).numpy(), rows[0])


def test_draws_never_reach_their_upper_end():
    for n in (1, 3, 5, 28, 1000):
        top = np.float32(1 - 2**-24) * np.float32(n)  # the largest number drawn, scaled as RandomCrop does
        assert np.floor(top) == n - 1


# ---- mistakes --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make, words", [
    (lambda: Pad(-1), "Pad: padding must be a whole number, at least 0, got -1"),
    (lambda: Pad(1.5), "got 1.5"),
    (lambda: RandomCrop(0), "RandomCrop: size must be one or two whole numbers, at least 1, got 0"),
    (lambda: RandomCrop((3, 4, 5)), "got (3, 4, 5)"),
    (lambda: RandomHorizontalFlip(-0.1), "RandomHorizontalFlip: needs 0 <= p <= 1, got -0.1"),
    (lambda: RandomHorizontalFlip(float("nan")), "got nan"),
    (lambda: RandomRotation(-3), "RandomRotation: degrees must be finite, at least 0, got -3"),
    (lambda: RandomRotation(float("nan")), "got nan"),
    (lambda: RandomScale(1.2, 0.8), "RandomScale: needs 0 < low <= high, both finite, got 1.2 and 0.8"),
    (lambda: RandomScale(0, 1), "got 0 and 1"),
    (lambda: RandomErasing(p=1.5), "RandomErasing: needs 0 <= p <= 1"),
    (lambda: RandomErasing(scale=(0.5, 0.1)), "scale (0.5, 0.1)"),
    (lambda: RandomErasing(ratio=(0.3,)), "ratio (0.3,)"),
    (lambda: Normalize(0.5, 0), "std positive"),
    (lambda: Normalize((0.1, 0.2), (1.0,)), "must be as many"),
])
def test_settings_out_of_range(make, words):
    with pytest.raises(ArgumentError) as caught:
        make()
    assert words in str(caught.value)


@pytest.mark.parametrize("stored, chain, error, words", [
    (np.zeros((4, 9), np.uint8), [], ShapeError, "takes images (N, H, W) or (N, H, W, C), got (4, 9)"),
    (np.zeros((4, 3, 32, 32), np.float32), [], ShapeError, "channels last, got (4, 3, 32, 32)"),
    (np.zeros((4, 9, 9), np.int32), [], DTypeError, "takes uint8 or float images, got int32"),
    (np.zeros((4, 9, 9), bool), [], DTypeError, "got bool"),
    (np.zeros((4, 9, 9), np.uint8), [RandomCrop(10)], ShapeError, "the window (10, 10) is larger than the image (9, 9)"),
    (np.zeros((4, 9, 9), np.uint8), [RandomErasing(), RandomRotation(3)], ArgumentError, "geometric transforms must come before"),
    (np.zeros((4, 9, 9, 3), np.uint8), [Normalize((1.0, 2.0), (1.0, 1.0))], ShapeError, "one for each of 3 channels, got 2"),
    (np.zeros((4, 9, 9), np.uint8), [Pad], ArgumentError, "takes Transforms such as Pad(2), got <class"),
    (np.zeros((4, 9, 9), np.uint8), [Transform()], ArgumentError, "Transform does not say what it does to images"),
])
def test_images_that_do_not_fit(stored, chain, error, words):
    with pytest.raises(error) as caught:
        augmented(rn.from_numpy(stored), rn.tensor([0]), chain, SampleDraws(0))
    assert words in str(caught.value)


def test_normalised_pixels_are_erased_with_the_value_as_given():
    stored = images((6, 9, 9))
    chain = [RandomRotation(20), RandomErasing(p=1.0, value=0.0)]
    before = ours(stored, np.arange(6), [*chain[:1], Normalize(0.25, 0.5), *chain[1:]])
    inside = augmented(rn.from_numpy(stored), rn.tensor(np.arange(6)), chain, SampleDraws(SEED), Normalize(0.25, 0.5)).numpy()
    np.testing.assert_array_equal(inside, before)
    assert (inside == 0.0).any(axis=(1, 2, 3)).all()


@pytest.mark.parametrize("shape", [(3, 1, 7), (3, 7, 1), (3, 1, 1), (3, 2, 2, 3)])
def test_turned_images_of_one_row_or_column(shape):
    check(images(shape), [2, 0, 1], [RandomRotation(30), RandomScale(0.5, 1.5)])


@pytest.mark.parametrize("width", [1, 3, 28, 107, 128, 129])
def test_rows_and_columns_of_the_largest_images(width):
    height = (1 << 21) // width
    batch = Images(rn.zeros((1, height, width)), rn.tensor([0]), SampleDraws(0), (height, width))
    _, i, j = _grid(batch)
    n = np.arange(height * width)
    np.testing.assert_array_equal(i.numpy().ravel(), n // width)
    np.testing.assert_array_equal(j.numpy().ravel(), n % width)


def test_an_infinite_pixel_spoils_only_what_it_reaches():
    stored = np.zeros((1, 8, 8), np.float32)
    stored[0, 0, 0] = np.inf
    turned = ours(stored, [0], [RandomRotation(10)])[0, 0]
    assert np.isinf(turned).any() and not np.isnan(turned).any() and np.isfinite(turned[4:, 4:]).all()


def test_a_transform_of_the_users_own():
    class Invert(Transform):
        def __call__(self, images):
            images.pixels = 1.0 - images.read()

    stored = images((3, 4, 5))
    np.testing.assert_allclose(ours(stored, [1], [Invert()])[0, 0], 1 - stored[1] / 255, atol=1e-6)
    assert repr(RandomScale(0.8, 1.2)) == "RandomScale(low=0.8, high=1.2)"
