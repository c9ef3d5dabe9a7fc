"""CIFAR-10: 60,000 colour photos of 32 x 32 pixels in ten classes, 50,000 of them for training.

source    A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009
licence   none stated; its authors ask that the report be cited
"""

from __future__ import annotations

import gzip
import os
import re
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from renaissance.config import settings
from renaissance.data.dataset import ArrayDataset
from renaissance.data.image_zip import Part, read_image_zip
from renaissance.data.sets.fetch import RemoteFile, fetch, is_intact
from renaissance.errors import DataError

MIRRORS = (
    "https://www.cs.toronto.edu/~kriz/",
    "https://storage.googleapis.com/s4tf-hosted-binaries/datasets/CIFAR10/",
    "https://mindspore-website.obs.cn-north-4.myhuaweicloud.com/notebook/datasets/",
)
ARCHIVE = RemoteFile(
    "cifar-10-binary.tar.gz", 170_052_171, "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd")
BATCHES = {"train": tuple(f"data_batch_{i}.bin" for i in range(1, 6)), "test": ("test_batch.bin",)}
BATCH = 10_000  # images of a batch file
PER_CLASS = {"train": 5_000, "test": 1_000}
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

_NAMES = (*BATCHES["train"], *BATCHES["test"])
_SIZE = (32, 32)
_RECORD = 1 + 3 * 32 * 32  # bytes of a label and an image
_CHUNK_BYTES = 1 << 20
_MEAN, _STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)  # of the original training images
_FOLDERS = ("", "cifar10", "cifar-10", "CIFAR10", "cifar-10-batches-bin")
_ZIP = re.compile(r"(?!\.)cifar[-_]?10\b.*\.zip", re.IGNORECASE)
_PICKLES = ("cifar-10-batches-py", "cifar-10-python.tar.gz")


class CIFAR10(ArrayDataset):
    """CIFAR-10: training and validation images uint8 (N, 32, 32, 3), labels int64 (N,); batches are (B, 3, 32, 32).

    data_dir   folder that holds the binary version (`data_batch_1.bin` ... `data_batch_5.bin` and `test_batch.bin`), its archive
               `cifar-10-binary.tar.gz`, or a zip `cifar10*.zip` of JPEG images as `train/<class>/*.jpg` and `test/<class>/*.jpg`;
               or such an archive or zip itself. None: RENAISSANCE_DATA if CIFAR-10 is in it; else an earlier download; else the
               public mirrors, checked by SHA-256
    augment    transforms applied to training images, in order
    download   whether the mirrors may be asked
    raises     DataError naming the path, the fault and the remedy, for files that are missing, damaged or hold other numbers of
               images
    source     A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009

    `classes` holds their names; `normalize` mean and standard deviation of the channels / 255; `origin` the folder or file.
    """

    classes = CLASSES

    def __init__(
        self, data_dir: str | os.PathLike[str] | None = None, augment: Sequence[Any] = (), *, download: bool = True
    ) -> None:
        self.origin = _named(Path(data_dir).expanduser()) if data_dir is not None else _locate(settings().data_dir, download)
        parts = _read(self.origin)
        super().__init__(
            *parts["train"], validation=parts["test"], num_classes=len(CLASSES), augment=augment, normalize=(_MEAN, _STD))


def _named(path: Path) -> Path:
    """What a user named: a folder with the set in it, or its file; or an error."""
    if path.is_file() and (path.name == ARCHIVE.name or path.suffix == ".zip"):
        return path
    if not path.is_dir():
        raise DataError(f"{path}: no such folder; give the folder that holds CIFAR-10's files")
    if found := _find(path):
        return found
    pickles = next((name for name in _PICKLES if (path / name).exists()), None)
    unsafe = f" ({pickles} is not read: pickles can run any code)" if pickles else ""
    raise DataError(f"{path}: no {BATCHES['train'][0]}, {ARCHIVE.name} or cifar10*.zip in it{unsafe}; put one there, for "
                    f"instance from {MIRRORS[0]}")


def _locate(root: Path, download: bool) -> Path:
    """The set in the folder of data sets, else in its downloads, made now if need be."""
    if found := _find(root):
        return found
    downloads = root / "downloads" / "cifar10"
    archive = downloads / ARCHIVE.name
    if download:
        try:
            fetch((ARCHIVE,), MIRRORS, downloads, name="CIFAR-10")
            return archive
        except DataError as fault:
            reason = str(fault)
    elif is_intact(archive, ARCHIVE):
        return archive
    else:
        reason = "download=False"
    raise DataError(f"CIFAR-10: no copy in {root}, and {reason}; put {ARCHIVE.name} there, or give its folder "
                    "as data_dir (--data)")


def _find(folder: Path) -> Path | None:
    """Where CIFAR-10 lies in a folder of it or of data sets: the folder of its batch files, else its archive, else a zip."""
    for place in (folder / name for name in _FOLDERS):
        names = _listing(place)
        if any(name in names for name in _NAMES):
            return place
        if ARCHIVE.name in names:
            return place / ARCHIVE.name
        zips = [name for name in names if _ZIP.fullmatch(name)]
        if len(zips) > 1:
            raise DataError(f"{place}: it holds several zips ({', '.join(zips)}); give one of them, or a folder with one")
        if zips:
            return place / zips[0]
    return None


def _listing(folder: Path) -> list[str]:
    """Names of what a folder holds; nothing if it is none."""
    try:
        return sorted(path.name for path in folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as fault:
        raise DataError(f"{folder}: cannot be listed ({fault.strerror}); check its permissions") from None


def _read(origin: Path) -> dict[str, Part]:
    if origin.suffix == ".zip":
        return read_image_zip(origin, PER_CLASS, CLASSES, _SIZE)
    return _joined(origin, _folder_batches(origin) if origin.is_dir() else _archive_batches(origin))


def _folder_batches(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the batch files that are there."""
    for name in _NAMES:
        try:
            yield name, (folder / name).read_bytes()
        except FileNotFoundError:
            continue
        except OSError as fault:
            raise DataError(f"{folder / name}: cannot be read ({fault.strerror}); check its permissions and the disk") from None


def _archive_batches(path: Path) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the batch files in the archive, which is known to be whole at the end."""
    try:
        with gzip.open(path) as stream, tarfile.open(fileobj=stream, mode="r:") as archive:
            for member in archive:
                name = member.name.rpartition("/")[2]
                if name in _NAMES and (file := archive.extractfile(member)) is not None:
                    yield name, file.read(BATCH * _RECORD + 1)
            while stream.read(_CHUNK_BYTES):
                pass
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError) as fault:
        raise _damaged(path, f"not a whole .tar.gz archive ({fault})") from None
    except OSError as fault:
        raise DataError(f"{path}: cannot be read ({fault.strerror or fault}); check its permissions and the disk") from None


def _joined(origin: Path, batches: Iterable[tuple[str, bytes]]) -> dict[str, Part]:
    """Images and labels of both parts, once every batch file is there."""
    parts: dict[str, Part] = {}
    places: dict[str, Part] = {}
    for part, names in BATCHES.items():
        count = BATCH * len(names)
        images, labels = parts[part] = np.empty((count, *_SIZE, 3), np.uint8), np.empty(count, np.int64)
        for start, name in zip(range(0, count, BATCH), names):
            places[name] = images[start:start + BATCH], labels[start:start + BATCH]
    for name, content in batches:
        if name in places:
            _unpack(origin / name, content, *places.pop(name))
    if places:
        raise DataError(f"{origin}: missing {', '.join(places)}; put it there, for instance from {MIRRORS[0]}{ARCHIVE.name}")
    return parts


def _unpack(path: Path, content: bytes, images: np.ndarray, labels: np.ndarray) -> None:
    """A batch file: for each image its label, a byte, then its red, its green and its blue pixels, by rows."""
    if len(content) != BATCH * _RECORD:
        size = f"{len(content):,}" if len(content) < BATCH * _RECORD else "more"
        raise _damaged(path, f"{size} bytes, expected {BATCH * _RECORD:,}: {BATCH:,} images of {_RECORD:,}")
    records = np.frombuffer(content, np.uint8).reshape(BATCH, _RECORD)
    labels[...] = records[:, 0]
    if labels.max() >= len(CLASSES):
        first = int(np.argmax(labels >= len(CLASSES)))
        raise _damaged(path, f"label {labels[first]} at position {first}, expected 0 ... {len(CLASSES) - 1}")
    images[...] = records[:, 1:].reshape(BATCH, 3, *_SIZE).transpose(0, 2, 3, 1)


def _damaged(path: Path, fault: str) -> DataError:
    return DataError(f"{path}: {fault}; get the file again from its source")
