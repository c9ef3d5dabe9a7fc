"""A small CIFAR-10 for tests: pictures that show their class as a colour, on noise, as JPEGs in a zip."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import simplejpeg

from renaissance.data.sets import cifar10

PER_CLASS = {"train": 12, "test": 4}
TINTS = np.random.default_rng(10).integers(40, 216, (10, 3))


def picture(label: int, seed: int, size: tuple[int, int] = (32, 32)) -> np.ndarray:
    """(H, W, 3) uint8: the class's colour, a brighter square somewhere, and noise."""
    rng = np.random.default_rng(seed)
    values = TINTS[label] + rng.integers(-30, 31, (*size, 3))
    y, x = rng.integers(0, np.array(size) // 2)
    values[y:y + size[0] // 2, x:x + size[1] // 2] += 40
    return values.clip(0, 255).astype(np.uint8)


def jpeg(pixels: np.ndarray) -> bytes:
    """A JPEG image of good quality."""
    return simplejpeg.encode_jpeg(np.ascontiguousarray(pixels), quality=95)


def jpegs() -> dict[str, bytes]:
    """All files of the set by their place in the zip."""
    files = {}
    for part, count in PER_CLASS.items():
        for label, name in enumerate(cifar10.CLASSES):
            for i in range(count):
                files[f"{part}/{name}/{i:04}.jpg"] = jpeg(picture(label, i + 1000 * label + 500 * (part == "test")))
    return files


def write_zip(path: Path, files: dict[str, bytes]) -> Path:
    """Write a zip of these files; returns its path."""
    with zipfile.ZipFile(path, "w") as out:
        for name, content in files.items():
            out.writestr(name, content)
    return path


def write_pictures(folder: Path, monkeypatch) -> Path:
    """Write a small CIFAR-10 that counts as whole; returns its zip."""
    monkeypatch.setattr(cifar10, "PER_CLASS", PER_CLASS)
    return write_zip(folder / "cifar10-jpeg.zip", jpegs())
