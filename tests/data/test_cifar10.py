"""Where CIFAR-10 comes from, that its forms hold the same, and that a faulty file is an error with its path and fault."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile

import numpy as np
import pytest
import simplejpeg

from renaissance.config import read
from renaissance.data.sets import cifar10 as cifar10_module
from renaissance.data.sets.cifar10 import ARCHIVE, BATCHES, CIFAR10, CLASSES
from renaissance.data.sets.fetch import RemoteFile
from renaissance.errors import DataError

from ..markdown import ROOT
from ..pictures import PER_CLASS, jpeg, jpegs, picture, write_zip

NAMES = (*BATCHES["train"], *BATCHES["test"])
BATCH = 20
RECORD = 3073
REAL = ROOT.parent / "shared" / "data" / "cifar10-jpeg.zip"


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Twelve and four images of each class count as all; batch files hold 20."""
    monkeypatch.setattr(cifar10_module, "PER_CLASS", PER_CLASS)
    monkeypatch.setattr(cifar10_module, "BATCH", BATCH)


@pytest.fixture(scope="module")
def files():
    return jpegs()


@pytest.fixture
def root(tmp_path, monkeypatch):
    """RENAISSANCE_DATA is an empty folder, and no mirror answers."""
    settings = read({"RENAISSANCE_DATA": str(tmp_path / "sets"), "RENAISSANCE_CACHE": str(tmp_path / "cache")})
    monkeypatch.setattr(cifar10_module, "settings", lambda: settings)
    monkeypatch.setattr(cifar10_module, "MIRRORS", ("http://127.0.0.1:9/",))
    (tmp_path / "sets").mkdir()
    return tmp_path / "sets"


def batches(seed=0):
    """Images and labels of both parts as arrays, and the batch files that hold them."""
    rng = np.random.default_rng(seed)
    parts, contents = [], {}
    for names in BATCHES.values():
        x, y = rng.integers(0, 256, (BATCH * len(names), 32, 32, 3), np.uint8), rng.integers(0, 10, BATCH * len(names))
        parts.append((x, y))
        for k, name in enumerate(names):
            rows = slice(k * BATCH, (k + 1) * BATCH)
            planes = x[rows].transpose(0, 3, 1, 2).reshape(BATCH, -1)  # all red, all green, all blue
            contents[name] = np.concatenate([y[rows, None].astype(np.uint8), planes], axis=1).tobytes()
    return parts, contents


def write_batches(folder, seed=0):
    folder.mkdir(parents=True, exist_ok=True)
    parts, contents = batches(seed)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return parts


def write_archive(path, contents):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as out:
        for name, content in {"readme.html": b"<html>", **contents}.items():
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(content)
            out.addfile(member, io.BytesIO(content))
    return path


def same(ours, parts):
    held = ((ours.train.x, ours.train.y), (ours.validation.x, ours.validation.y))
    return all(np.array_equal(a, b) for mine, given in zip(held, parts) for a, b in zip(mine, given))


def refused(path, *words):
    with pytest.raises(DataError) as caught:
        CIFAR10(path)
    for word in (str(path), *words):
        assert word in str(caught.value)


# ---- the zip of JPEGs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cifar10-jpeg.zip", "CIFAR-10.zip", "cifar_10 images.zip"])
def test_a_zip_of_jpegs(tmp_path, files, name):
    path = write_zip(tmp_path / name, {"readme.txt": b"", **dict(reversed(files.items()))})
    ours = CIFAR10(tmp_path)
    assert ours.origin == path and same(CIFAR10(path), [(ours.train.x, ours.train.y), (ours.validation.x, ours.validation.y)])
    assert ours.train.x.shape == (120, 32, 32, 3) and ours.validation.x.shape == (40, 32, 32, 3)
    assert ours.train.x.dtype == np.uint8 and ours.train.y.dtype == np.int64
    np.testing.assert_array_equal(ours.train.y, np.repeat(np.arange(10), 12))
    np.testing.assert_array_equal(ours.validation.y, np.repeat(np.arange(10), 4))
    assert ours.num_classes == len(ours.classes) == 10 and ours.classes[3] == "cat" and ours.augment == ()
    np.testing.assert_array_equal(ours.train.x[3 * 12 + 5], simplejpeg.decode_jpeg(files["train/cat/0005.jpg"]))
    assert np.abs(ours.train.x[41].astype(int) - picture(3, 3005)).mean() < 30  # the picture, lossy


def test_a_folder_around_the_parts_does_not_matter(tmp_path, files):
    plain = CIFAR10(write_zip(tmp_path / "a.zip", files))
    around = CIFAR10(write_zip(tmp_path / "b.zip", {f"cifar10/{name}": content for name, content in files.items()}))
    assert same(around, [(plain.train.x, plain.train.y), (plain.validation.x, plain.validation.y)])


def test_the_number_of_threads_changes_nothing(tmp_path, files, monkeypatch):
    path = write_zip(tmp_path / "cifar10.zip", files)
    monkeypatch.setattr("renaissance.data.image_zip._CHUNK", 7)
    monkeypatch.setattr("renaissance.data.image_zip.settings", lambda: read({"RENAISSANCE_THREADS": "3"}))
    many = CIFAR10(path)
    monkeypatch.undo()
    monkeypatch.setattr(cifar10_module, "PER_CLASS", PER_CLASS)
    one = CIFAR10(path)
    assert same(many, [(one.train.x, one.train.y), (one.validation.x, one.validation.y)])


def test_a_class_that_is_missing_or_incomplete_is_named(tmp_path, files):
    path = tmp_path / "cifar10.zip"
    write_zip(path, {name: content for name, content in files.items() if "/ship/" not in name})
    refused(path, "train/ship/ holds 0 JPEG images, expected 12")
    write_zip(path, {name: content for name, content in files.items() if name != "test/frog/0002.jpg"})
    refused(path, "test/frog/ holds 3 JPEG images, expected 4")
    write_zip(path, {**files, "train/dog/more.JPG": files["train/dog/0000.jpg"]})
    refused(path, "train/dog/ holds 13 JPEG images, expected 12")
    write_zip(path, {})
    refused(path, "train/airplane/ holds 0 JPEG images")


@pytest.mark.parametrize("content, words", [
    (b"", "not a whole JPEG image"),
    (b"GIF89a, not JPEG", "not a whole JPEG image"),
    (jpeg(picture(1, 1))[:-300], "not a whole JPEG image"),
    (jpeg(picture(1, 1, (32, 33))), "32 x 33 pixels, expected 32 x 32"),
    (jpeg(picture(1, 1, (16, 16))), "16 x 16 pixels, expected 32 x 32"),
], ids=["empty", "other", "cut", "wide", "small"])
def test_a_damaged_image_is_named(tmp_path, files, content, words):
    refused(write_zip(tmp_path / "cifar10.zip", {**files, "test/deer/0001.jpg": content}), "test/deer/0001.jpg", words)


def test_a_damaged_zip_is_named(tmp_path, files):
    path = write_zip(tmp_path / "cifar10.zip", files)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1000])
    refused(path, "not a whole zip file")
    path.write_bytes(b"")
    refused(path, "not a whole zip file")
    at = whole.index(files["train/cat/0003.jpg"]) + 400
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
    refused(path, "train/cat/0003.jpg", "CRC")


def test_grey_jpegs_are_decoded_as_colours(tmp_path, files):
    grey = picture(5, 5)[:, :, :1]
    content = simplejpeg.encode_jpeg(np.ascontiguousarray(grey), quality=95, colorspace="GRAY", colorsubsampling="gray")
    ours = CIFAR10(write_zip(tmp_path / "cifar10.zip", {**files, "train/dog/0000.jpg": content}))
    assert (np.ptp(ours.train.x[60], axis=2) == 0).all() and np.abs(ours.train.x[60].astype(int) - grey).max() < 40


# ---- the binary version ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["", "cifar-10-batches-bin", "cifar10"])
def test_batch_files(tmp_path, place):
    parts = write_batches(tmp_path / place)
    ours = CIFAR10(tmp_path)
    assert same(ours, parts) and ours.origin == tmp_path / place
    assert ours.train.x.flags.c_contiguous


def test_the_archive(tmp_path):
    parts, contents = batches()
    path = write_archive(tmp_path / ARCHIVE.name, dict(reversed(contents.items())))
    ours = CIFAR10(str(tmp_path))
    assert same(ours, parts) and ours.origin == path and same(CIFAR10(path), parts)


def test_the_original_comes_before_the_lossy_copy(tmp_path, files):
    write_zip(tmp_path / "cifar10-jpeg.zip", files)
    _, contents = batches()
    write_archive(tmp_path / ARCHIVE.name, contents)
    assert CIFAR10(tmp_path).origin == tmp_path / ARCHIVE.name
    parts = write_batches(tmp_path, seed=1)
    assert same(CIFAR10(tmp_path), parts)


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_batch_file_is_named(tmp_path, name):
    write_batches(tmp_path / "folder")
    (tmp_path / "folder" / name).unlink()
    refused(tmp_path / "folder", f"missing {name};")
    contents = {key: content for key, content in batches()[1].items() if key != name}
    refused(write_archive(tmp_path / ARCHIVE.name, contents), f"missing {name};")


def test_a_damaged_batch_file_is_named(tmp_path):
    write_batches(tmp_path)
    path = tmp_path / NAMES[2]
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    refused(tmp_path, str(path), "61,459 bytes, expected 61,460: 20 images of 3,073")
    path.write_bytes(whole + b"x")
    refused(tmp_path, str(path), "more bytes, expected 61,460")
    path.write_bytes(whole[:4 * RECORD] + b"\x0a" + whole[4 * RECORD + 1:])
    refused(tmp_path, str(path), "label 10 at position 4, expected 0 ... 9")


def test_a_damaged_archive_is_named(tmp_path):
    path = write_archive(tmp_path / ARCHIVE.name, batches()[1])
    whole = path.read_bytes()
    for content in (whole[:-5000], whole[:-4], b"", b"not gzip", gzip.compress(b"not tar" * 1000),
                    whole[:-6] + bytes([whole[-6] ^ 1]) + whole[-5:]):
        path.write_bytes(content)
        refused(path, "not a whole .tar.gz archive")


# ---- where it is looked for ------------------------------------------------------------------------------------------------


def test_an_empty_or_absent_folder_is_named(tmp_path):
    refused(tmp_path, "data_batch_1.bin", ARCHIVE.name, "cifar10*.zip", "cs.toronto.edu")
    refused(tmp_path / "absent", "no such folder")
    (tmp_path / "file").write_bytes(b"")
    refused(tmp_path / "file", "no such folder")
    (tmp_path / "cifar-10-batches-py").mkdir()
    refused(tmp_path, "cifar-10-batches-py is not read: pickles can run any code")


def test_several_zips_are_not_chosen_from(tmp_path, files):
    for name in ("cifar10-a.zip", "cifar10-b.zip", "cifar100.zip", "._cifar10.zip"):
        write_zip(tmp_path / name, files)
    refused(tmp_path, "several zips (cifar10-a.zip, cifar10-b.zip)")
    (tmp_path / "cifar10-b.zip").unlink()
    assert CIFAR10(tmp_path).origin == tmp_path / "cifar10-a.zip"


@pytest.mark.parametrize("place", ["", "cifar10"])
def test_the_folder_of_data_sets_comes_first(root, files, place):
    (root / place).mkdir(exist_ok=True)
    path = write_zip(root / place / "cifar10-jpeg.zip", files)
    assert CIFAR10().origin == path


@pytest.mark.parametrize("download", [True, False])
def test_an_earlier_download_needs_no_network(root, monkeypatch, download):
    parts, contents = batches()
    content = write_archive(root / "downloads" / "cifar10" / ARCHIVE.name, contents).read_bytes()
    monkeypatch.setattr(cifar10_module, "ARCHIVE",
                        RemoteFile(ARCHIVE.name, len(content), hashlib.sha256(content).hexdigest()))
    assert same(CIFAR10(download=download), parts)
    with open(root / "downloads" / "cifar10" / ARCHIVE.name, "ab") as file:
        file.write(b"x")
    with pytest.raises(DataError, match="no copy in"):
        CIFAR10(download=download)


@pytest.mark.parametrize("download, reason", [(True, "http://127.0.0.1:9/"), (False, "download=False")])
def test_without_a_copy_or_network_it_says_what_to_do(root, download, reason):
    with pytest.raises(DataError) as caught:
        CIFAR10(download=download)
    for word in (str(root), reason, ARCHIVE.name, "data_dir (--data)"):
        assert word in str(caught.value)


# ---- the real one ----------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not REAL.exists(), reason="the real images are not beside the repository")
def test_the_real_images(monkeypatch):
    monkeypatch.setattr(cifar10_module, "PER_CLASS", {"train": 5000, "test": 1000})
    ours = CIFAR10(REAL)
    assert ours.train.x.shape == (50_000, 32, 32, 3) and len(ours.validation) == 10_000
    assert (np.bincount(ours.train.y) == 5000).all() and (np.bincount(ours.validation.y) == 1000).all()
    mean, std = ours.normalize
    pixels = ours.train.x[::7].reshape(-1, 3)
    np.testing.assert_allclose(pixels.mean(0) / 255, mean, atol=0.002)
    np.testing.assert_allclose(pixels.std(0) / 255, std, atol=0.003)
    # Images and labels belong together: blue sky above planes, sea below ships.
    border = ours.train.x[:, ::31].mean((1, 2))
    bluish = np.array([(border[ours.train.y == k, 2] > border[ours.train.y == k, 0]).mean() for k in range(10)])
    assert {CLASSES[k] for k in np.argsort(bluish)[-2:]} == {"airplane", "ship"}
