"""MNIST: 70,000 handwritten digits of 28 x 28 pixels, 60,000 of them for training.

source    Y. LeCun, C. Cortes, C. Burges, "The MNIST database of handwritten digits", 1998
licence   CC BY-SA 3.0; that of the bundled sample is told in `data/sample/NOTICE.txt`
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from renaissance.config import settings
from renaissance.data.dataset import ArrayDataset
from renaissance.data.idx import read_idx
from renaissance.data.sets.fetch import RemoteFile, fetch, is_intact
from renaissance.errors import DataError

MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    "https://raw.githubusercontent.com/fgnt/mnist/master/",
)
FILES = (
    RemoteFile("train-images-idx3-ubyte.gz", 9_912_422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
    RemoteFile("train-labels-idx1-ubyte.gz", 28_881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
    RemoteFile("t10k-images-idx3-ubyte.gz", 1_648_877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
    RemoteFile("t10k-labels-idx1-ubyte.gz", 4_542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
)
SAMPLE = Path(__file__).parent.parent / "sample"

_CLASSES = 10
_SIZE = (28, 28)
_NEEDED = tuple((part, kind) for part in ("train", "t10k") for kind in ("images", "labels"))
_NAME = re.compile(r"(?P<prefix>(?!\.).*?)(?P<part>train|t10k|test)-(?P<kind>images|labels)[-.]idx[13]-ubyte(\.gz)?")
_PREFERRED_PREFIXES = ("", "mnist-", "mnist_")

Paths = dict[tuple[str, str], Path]


class MNIST(ArrayDataset):
    """MNIST, or any 28 x 28 digits in its file format: training and validation images uint8 (N, 28, 28), labels int64 (N,).

    data_dir   folder of the four idx or idx.gz files (`train-images-idx3-ubyte.gz` or `train-images.idx3-ubyte`, with any common
               prefix); a fault in it is an error. None: RENAISSANCE_DATA if MNIST is in it; else an earlier download; else the
               public mirrors, checked by SHA-256; else, with a message on stderr, the bundled sample of 8,000 + 2,000 digits
    augment    transforms applied to training images, in order
    download   whether the mirrors may be asked
    raises     DataError naming the path, the fault and the remedy, for files that are missing, damaged or do not hold digits
    source     Y. LeCun, C. Cortes, C. Burges, "The MNIST database of handwritten digits", 1998

    `normalize` holds mean and standard deviation of the pixels / 255; `origin` the folder; `is_sample` whether it is the sample.
    """

    def __init__(
        self, data_dir: str | os.PathLike[str] | None = None, augment: Sequence[Any] = (), *, download: bool = True
    ) -> None:
        paths = _named(Path(data_dir).expanduser()) if data_dir is not None else _locate(settings().data_dir, download)
        train, validation = (_read_part(paths[part, "images"], paths[part, "labels"]) for part in ("train", "t10k"))
        super().__init__(*train, validation=validation, num_classes=_CLASSES, augment=augment, normalize=(0.1307, 0.3081))
        self.origin = paths["train", "images"].parent
        self.is_sample = self.origin == SAMPLE


def _named(folder: Path) -> Paths:
    """The four files of a folder the user named: all of them, or an error."""
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; give the folder that holds MNIST's idx files")
    return _find(folder) or _raise_missing(folder, _NEEDED)


def _locate(root: Path, download: bool) -> Paths:
    """The four files from the folder of data sets, else from its downloads, made now if need be, else the sample."""
    if found := _find(root):
        return found
    downloads = root / "downloads" / "mnist"
    reason = f"no copy in {root}, and download=False"
    if download:
        try:
            fetch(FILES, MIRRORS, downloads, name="MNIST")
        except DataError as fault:
            reason = f"no copy in {root}, and {fault}"
    if all(is_intact(downloads / file.name, file) for file in FILES):
        return _originals(downloads)
    print(
        f"MNIST: {reason}.\n"
        "Using the sample that comes with this package: 8,000 training and 2,000 validation digits, so accuracy will be lower "
        "than with all 60,000.\nFor those, put the four idx files into a folder and give it as data_dir (--data).",
        file=sys.stderr,
    )
    return _originals(SAMPLE)


def _originals(folder: Path) -> Paths:
    return {pair: folder / file.name for pair, file in zip(_NEEDED, FILES)}


def _find(folder: Path) -> Paths | None:
    """The four files in a folder of MNIST or of data sets; None if there are none of them, an error if some are missing."""
    for place in (folder, folder / "mnist", folder / "MNIST" / "raw"):
        groups: dict[str, Paths] = {}
        for path in _listing(place):
            if (match := _NAME.fullmatch(path.name)) and path.is_file():
                part = match["part"].replace("test", "t10k")
                groups.setdefault(match["prefix"], {})[part, match["kind"]] = path
        if groups:
            return _choose(place, groups)
    return None


def _listing(folder: Path) -> list[Path]:
    """What a folder holds, in reverse order, so that an unzipped file comes after its .gz and wins; nothing if it is none."""
    try:
        return sorted(folder.iterdir(), reverse=True)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as fault:
        raise DataError(f"{folder}: cannot be listed ({fault.strerror}); check its permissions") from None


def _choose(folder: Path, groups: dict[str, Paths]) -> Paths:
    """The set to use among those found, by their prefixes; if that one lacks a file it is an error, never another set instead."""
    preferred = [prefix for prefix in _PREFERRED_PREFIXES if prefix in groups]
    if not preferred and len(groups) > 1:
        names = ", ".join(sorted(f"{prefix}*" for prefix in groups))
        raise DataError(f"{folder}: it holds several sets ({names}); give a folder with one of them")
    paths = groups[preferred[0] if preferred else next(iter(groups))]
    missing = [pair for pair in _NEEDED if pair not in paths]
    return _raise_missing(folder, missing) if missing else paths


def _raise_missing(folder: Path, missing: Sequence[tuple[str, str]]) -> NoReturn:
    names = ", ".join(file.name for pair, file in zip(_NEEDED, FILES) if pair in missing)
    raise DataError(f"{folder}: missing {names} (.gz or unzipped); put it there, for instance from {MIRRORS[0]}")


def _read_part(images_path: Path, labels_path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of one part, known to belong together as far as files can tell."""
    images, labels = read_idx(images_path), read_idx(labels_path)
    if images.dtype != np.uint8 or images.ndim != 3 or images.shape[1:] != _SIZE or not len(images):
        raise _misfit(images_path, f"expected uint8 images (N, 28, 28), N >= 1, got {images.dtype} {images.shape}")
    if labels.dtype != np.uint8 or labels.ndim != 1:
        raise _misfit(labels_path, f"expected uint8 labels (N,), got {labels.dtype} {labels.shape}")
    if len(images) != len(labels):
        raise _misfit(labels_path, f"it holds {len(labels):,} labels, but {images_path.name} holds {len(images):,} images")
    if labels.max() >= _CLASSES:
        first = int(np.argmax(labels >= _CLASSES))
        raise _misfit(labels_path, f"label {labels[first]} at position {first}, expected 0 ... {_CLASSES - 1}")
    return images, labels


def _misfit(path: Path, fault: str) -> DataError:
    return DataError(f"{path}: {fault}; put the right file there, or give another folder")
