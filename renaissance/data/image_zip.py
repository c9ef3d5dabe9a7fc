"""Zips of JPEG images in class folders, `<part>/<class>/<name>.jpg`: decoded whole and checked, or refused with the fault."""

from __future__ import annotations

import sys
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import simplejpeg

from renaissance.config import settings
from renaissance.errors import DataError
from renaissance.progress import Bar

Part = tuple[np.ndarray, np.ndarray]

_SUFFIXES = (".jpg", ".jpeg")
_CHUNK = 500  # images a thread takes at a time
_PATIENCE_S = 2.0


def read_image_zip(path: Path, parts: Mapping[str, int], classes: Sequence[str], size: tuple[int, int]) -> dict[str, Part]:
    """Decode all images of a zip, in threads; a bar shows on stderr when it takes more than two seconds.

    path      file; folders around those of the parts, and files that are no JPEGs in a class folder, do not matter
    parts     names of the parts, and how many images each class has in them
    classes   names of the class folders, in the order of their labels
    size      height and width every image must have
    returns   images (N, H, W, 3) uint8 and labels (N,) int64 of each part, by class, then by name
    raises    DataError naming the zip, the image, the fault and the remedy: not a zip, a class missing or of another number of
              images, an image that is damaged or of another size. Nothing is returned from a damaged file.
    source    JPEG: ITU-T T.81; zip: PKWARE APPNOTE
    """
    try:
        with zipfile.ZipFile(path) as file:
            found = _members(path, file, parts, classes)
            return _decoded(path, file, found, len(classes), size)
    except zipfile.BadZipFile as fault:
        raise _damaged(path, f"not a whole zip file ({fault})") from None
    except OSError as fault:
        raise DataError(f"{path}: cannot be read ({fault.strerror or fault}); check its permissions and the disk") from None


def _members(path: Path, file: zipfile.ZipFile, parts: Mapping[str, int],
             classes: Sequence[str]) -> dict[str, list[zipfile.ZipInfo]]:
    """The images of each part, by class, then by name: as many as there must be."""
    folders: dict[tuple[str, ...], list[zipfile.ZipInfo]] = {(part, name): [] for part in parts for name in classes}
    for info in file.infolist():
        place = tuple(info.filename.split("/")[-3:-1])
        if place in folders and info.filename.lower().endswith(_SUFFIXES):
            folders[place].append(info)
    for (part, name), infos in folders.items():
        if len(infos) != parts[part]:
            raise _damaged(path, f"{part}/{name}/ holds {len(infos):,} JPEG images, expected {parts[part]:,}")
        infos.sort(key=lambda info: info.filename)
    return {part: [info for name in classes for info in folders[part, name]] for part in parts}


def _decoded(path: Path, file: zipfile.ZipFile, found: Mapping[str, list[zipfile.ZipInfo]], classes: int,
             size: tuple[int, int]) -> dict[str, Part]:
    bar, done, total = Bar(sys.stderr, patience_s=_PATIENCE_S), 0, sum(map(len, found.values()))
    result: dict[str, Part] = {}
    with ThreadPoolExecutor(settings().threads) as pool:
        try:
            for part, infos in found.items():
                images = np.empty((len(infos), *size, 3), np.uint8)
                starts = range(0, len(infos), _CHUNK)
                work = ((path, file, infos[start:start + _CHUNK], images[start:start + _CHUNK]) for start in starts)
                for count in pool.map(lambda chunk: _decode(*chunk), work):
                    done += count
                    bar.draw(f"{path.name}: decoding", done, total, f"{done:,} of {total:,} images")
                result[part] = images, np.repeat(np.arange(classes), len(infos) // classes)
        finally:
            bar.clear()
            pool.shutdown(cancel_futures=True)
    return result


def _decode(path: Path, file: zipfile.ZipFile, infos: Sequence[zipfile.ZipInfo], out: np.ndarray) -> int:
    """Decode some images to their places; returns how many."""
    for info, place in zip(infos, out):
        try:
            content = file.read(info)
            height, width = simplejpeg.decode_jpeg_header(content)[:2]
            if (height, width) == place.shape[:2]:
                simplejpeg.decode_jpeg(content, buffer=place)
        except (ValueError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error, EOFError) as fault:
            raise _damaged(path, f"{info.filename}: not a whole JPEG image ({fault})") from None
        if (height, width) != place.shape[:2]:
            wanted = " x ".join(map(str, place.shape[:2]))
            raise _damaged(path, f"{info.filename}: {height} x {width} pixels, expected {wanted}")
    return len(infos)


def _damaged(path: Path, fault: str) -> DataError:
    return DataError(f"{path}: {fault}; get the file again from its source")
