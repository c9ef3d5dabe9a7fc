"""Where MNIST comes from, and that a faulty file is an error with its path, never a half-read set."""

import hashlib
import shutil

import numpy as np
import pytest

from renaissance.config import read
from renaissance.data.idx import read_idx, write_idx
from renaissance.data.sets import mnist as mnist_module
from renaissance.data.sets.fetch import RemoteFile
from renaissance.data.sets.mnist import FILES, MNIST, SAMPLE
from renaissance.errors import DataError

NAMES = {
    "gzip": [file.name for file in FILES],
    "plain": [file.name.removesuffix(".gz") for file in FILES],
    "dotted": [file.name.removesuffix(".gz").replace("-idx", ".idx") for file in FILES],
    "prefixed": ["mnist-" + file.name for file in FILES],
    "other prefix": ["kannada_" + file.name for file in FILES],
    "test": [file.name.replace("t10k", "test") for file in FILES],
}


def write_set(folder, names=NAMES["gzip"], *, seed=0, size=(28, 28), classes=10):
    """Four files of 30 + 20 random digits; returns the arrays in the order of the names."""
    random = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    arrays = []
    for count in (30, 20):
        arrays.append(random.integers(0, 256, (count, *size)).astype(np.uint8))
        arrays.append((np.arange(count) % classes).astype(np.uint8))
    for name, array in zip(names, arrays):
        write_idx(folder / name, array)
    return arrays


@pytest.fixture
def root(tmp_path, monkeypatch):
    """RENAISSANCE_DATA is an empty folder, and no mirror answers."""
    settings = read({"RENAISSANCE_DATA": str(tmp_path / "sets"), "RENAISSANCE_CACHE": str(tmp_path / "cache")})
    monkeypatch.setattr(mnist_module, "settings", lambda: settings)
    monkeypatch.setattr(mnist_module, "MIRRORS", ("http://127.0.0.1:9/",))
    return tmp_path / "sets"


def same(mnist, arrays):
    ours = (mnist.train.x, mnist.train.y, mnist.validation.x, mnist.validation.y)
    return all(np.array_equal(a, b) for a, b in zip(ours, arrays))


def refused(folder, *words):
    with pytest.raises(DataError) as caught:
        MNIST(folder)
    for word in (str(folder), *words):
        assert word in str(caught.value)


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("place", ["", "mnist", "MNIST/raw"])
def test_a_named_folder(tmp_path, names, place):
    arrays = write_set(tmp_path / place, NAMES[names])
    mnist = MNIST(tmp_path)
    assert same(mnist, arrays)
    assert mnist.train.x.dtype == np.uint8 and mnist.train.y.dtype == np.int64
    assert mnist.num_classes == 10 and mnist.normalize == (0.1307, 0.3081) and mnist.augment == ()
    assert mnist.origin == tmp_path / place and not mnist.is_sample


def test_mixed_names_and_other_files(tmp_path):
    names = [NAMES["plain"][0], NAMES["gzip"][1], NAMES["dotted"][2], NAMES["test"][3]]
    arrays = write_set(tmp_path, names)
    (tmp_path / "._train-images-idx3-ubyte").write_bytes(b"")  # as some file systems leave beside the real one
    (tmp_path / "cifar10.zip").write_bytes(b"")
    assert same(MNIST(str(tmp_path)), arrays)


def test_the_plain_prefix_wins_and_others_must_be_alone(tmp_path):
    write_set(tmp_path, ["fashion-mnist-" + name for name in NAMES["gzip"]], seed=1)
    arrays = write_set(tmp_path, NAMES["prefixed"], seed=2)
    assert same(MNIST(tmp_path), arrays)
    arrays = write_set(tmp_path, NAMES["gzip"], seed=3)
    assert same(MNIST(tmp_path), arrays)
    for name in NAMES["gzip"]:
        (tmp_path / name).unlink()
    (tmp_path / NAMES["prefixed"][0]).unlink()
    refused(tmp_path, NAMES["gzip"][0])  # never another set instead
    for name in NAMES["prefixed"][1:]:
        (tmp_path / name).unlink()
    write_set(tmp_path, ["kannada-" + name for name in NAMES["gzip"]])
    with pytest.raises(DataError, match=r"several sets \(fashion-mnist-\*, kannada-\*\)"):
        MNIST(tmp_path)


@pytest.mark.parametrize("name", NAMES["gzip"])
def test_a_missing_file_is_named(tmp_path, root, name):
    write_set(tmp_path / "mine")
    (tmp_path / "mine" / name).unlink()
    refused(tmp_path / "mine", name.removesuffix(".gz"), "missing")


def test_an_empty_or_absent_folder_is_named(tmp_path, root):
    tmp_path.joinpath("mine").mkdir()
    refused(tmp_path / "mine", *(file.name for file in FILES))
    refused(tmp_path / "absent", "no such folder")
    (tmp_path / "file").write_bytes(b"")
    refused(tmp_path / "file", "no such folder")


@pytest.mark.parametrize("name", NAMES["gzip"])
def test_a_damaged_file_is_named(tmp_path, root, name):
    write_set(tmp_path / "mine")
    path = tmp_path / "mine" / name
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    refused(tmp_path / "mine", str(path), "truncated")
    path.write_bytes(whole[:-6] + bytes([whole[-6] ^ 1]) + whole[-5:])
    refused(tmp_path / "mine", str(path), "altered")


def test_files_that_do_not_fit_are_named(tmp_path):
    write_set(tmp_path, size=(32, 32))
    refused(tmp_path, NAMES["gzip"][0], "(N, 28, 28)", "(30, 32, 32)")
    write_set(tmp_path, classes=12)
    refused(tmp_path, NAMES["gzip"][1], "label 10 at position 10", "0 ... 9")
    images, labels, _, _ = write_set(tmp_path)
    write_idx(tmp_path / NAMES["gzip"][1], labels[:-1])
    refused(tmp_path, NAMES["gzip"][1], "29 labels", "30 images")
    write_idx(tmp_path / NAMES["gzip"][1], labels.astype(np.int32))
    refused(tmp_path, NAMES["gzip"][1], "int32")
    write_idx(tmp_path / NAMES["gzip"][1], images)
    refused(tmp_path, NAMES["gzip"][1], "(30, 28, 28)")
    write_set(tmp_path)
    write_idx(tmp_path / NAMES["gzip"][2], images[:0])
    refused(tmp_path, NAMES["gzip"][2], "(0, 28, 28)")


def test_the_folder_of_data_sets_comes_first(root):
    arrays = write_set(root / "mnist", NAMES["prefixed"])
    assert same(MNIST(), arrays)


def test_a_faulty_set_in_the_folder_of_data_sets_is_an_error(root):
    write_set(root)
    (root / NAMES["gzip"][3]).unlink()
    with pytest.raises(DataError, match="missing t10k-labels"):
        MNIST()


def publish(root, monkeypatch):
    """Make the files lying in the downloads folder count as the originals."""
    arrays = write_set(root / "downloads" / "mnist")
    files = []
    for name in NAMES["gzip"]:
        content = (root / "downloads" / "mnist" / name).read_bytes()
        files.append(RemoteFile(name, len(content), hashlib.sha256(content).hexdigest()))
    monkeypatch.setattr(mnist_module, "FILES", tuple(files))
    return arrays


@pytest.mark.parametrize("download", [True, False])
def test_an_earlier_download_needs_no_network(root, monkeypatch, capsys, download):
    arrays = publish(root, monkeypatch)
    assert same(MNIST(download=download), arrays)
    assert capsys.readouterr().err == ""


def test_a_damaged_download_is_not_used(root, monkeypatch, capsys):
    publish(root, monkeypatch)
    with open(root / "downloads" / "mnist" / FILES[1].name, "ab") as file:
        file.write(b"x")
    assert MNIST().is_sample
    assert FILES[1].name in capsys.readouterr().err


@pytest.mark.parametrize("download, reason", [(True, "http://127.0.0.1:9/"), (False, "download=False")])
def test_the_sample_is_the_last_resort_and_says_so(root, capsys, download, reason):
    mnist = MNIST(download=download)
    assert mnist.is_sample and len(mnist) == 8000 and len(mnist.validation) == 2000
    said = capsys.readouterr().err
    assert reason in said and "8,000 training and 2,000 validation" in said and "data_dir" in said and str(root) in said


def test_the_sample_holds_different_digits_of_every_class():
    parts = [read_idx(SAMPLE / file.name) for file in FILES]
    images = np.concatenate([parts[0], parts[2]]).reshape(10_000, 784)
    assert len(np.unique(images, axis=0)) == 10_000  # so nothing is in training and validation at once
    assert np.bincount(parts[1]).min() >= 600 and (np.bincount(parts[3]) == 200).all()
    assert sum(path.stat().st_size for path in SAMPLE.iterdir()) < 2_000_000


def test_the_sample_is_learnable():
    """The nearest of 8,000 digits names 94 % of the validation digits: images and labels belong together."""
    x, y, held_x, held_y = (read_idx(SAMPLE / file.name) for file in FILES)
    x, held_x = (part.reshape(len(part), 784).astype(np.float32) / 255 for part in (x, held_x[:500]))
    distance = (x * x).sum(axis=1) - 2 * held_x @ x.T
    assert (y[distance.argmin(axis=1)] == held_y[:500]).mean() > 0.9


def test_the_sample_may_be_named_as_a_folder(tmp_path):
    shutil.copytree(SAMPLE, tmp_path / "copy")
    assert len(MNIST(tmp_path / "copy")) == 8000
