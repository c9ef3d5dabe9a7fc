"""idx files (the format of MNIST), plain or gzipped: read whole and checked, or refused with the path and the fault.

Layout: two zero bytes, one dtype code, the number of dimensions; each dimension as a big-endian uint32; the big-endian data.
"""

from __future__ import annotations

import gzip
import math
import os
import struct
import zlib
from pathlib import Path
from typing import BinaryIO

import numpy as np

from renaissance.errors import DataError, DTypeError, ShapeError

DTYPES = {
    0x08: np.dtype(">u1"),
    0x09: np.dtype(">i1"),
    0x0B: np.dtype(">i2"),
    0x0C: np.dtype(">i4"),
    0x0D: np.dtype(">f4"),
    0x0E: np.dtype(">f8"),
}
_CODES = {dtype.newbyteorder("="): code for code, dtype in DTYPES.items()}

MAX_DIMENSIONS = 32
_GZIP_MAGIC = b"\x1f\x8b"
_DEFLATE_MAX_RATIO = 1032  # zlib's own bound: a longer claim than this times the file's size cannot be true
_CHUNK_BYTES = 1 << 20
_MAX_ELEMENTS = 1 << 58  # NumPy refuses larger shapes, even where another extent is 0


def read_idx(path: str | os.PathLike[str]) -> np.ndarray:
    """Read one idx file, gzipped or not (told by its first bytes, not by its name).

    path      file
    returns   array of the file's shape and dtype, native byte order, owned and writable
    raises    DataError naming the path, the fault and the remedy: missing, unreadable, not idx, unknown dtype code, shorter or
              longer than its header says, truncated or altered gzip stream. Nothing is returned from a damaged file.
    source    "The IDX file format", Y. LeCun, C. Cortes, C. Burges, the MNIST database
    """
    path = Path(path)
    try:
        with open(path, "rb") as file:
            size_bytes = os.fstat(file.fileno()).st_size
            zipped = file.read(2) == _GZIP_MAGIC
            file.seek(0)
            if not zipped:
                return _read(path, file, size_bytes)
            with gzip.GzipFile(fileobj=file, mode="rb") as stream:
                return _read(path, stream, size_bytes * _DEFLATE_MAX_RATIO)  # type: ignore[arg-type]
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; check the path, or put the file there") from None
    except IsADirectoryError:
        raise DataError(f"{path}: this is a folder, not a file; give the path of an idx file in it") from None
    except EOFError:
        raise _damaged(path, "the gzip stream ends early, so the file is truncated") from None
    except (zlib.error, gzip.BadGzipFile) as fault:
        raise _damaged(path, f"the gzip stream is altered ({fault})") from None
    except OSError as fault:
        raise DataError(f"{path}: cannot be read ({fault.strerror or fault}); check its permissions and the disk") from None


def write_idx(path: str | os.PathLike[str], array: np.ndarray) -> None:
    """Write an array as an idx file, gzipped if the name ends in .gz; equal arrays give equal bytes.

    path     file; it is written aside and renamed, so that it is there whole or not at all
    array    uint8, int8, int16, int32, float32 or float64, 1 to 32 dimensions
    raises   DTypeError, ShapeError for another array; DataError if the file cannot be written
    source   as `read_idx`
    """
    path, array = Path(path), np.asarray(array)
    code = _CODES.get(array.dtype.newbyteorder("="))
    if code is None:
        names = ", ".join(dtype.name for dtype in DTYPES.values())
        raise DTypeError(f"write_idx: array must have one of the dtypes {names}; got {array.dtype}")
    if not 1 <= array.ndim <= MAX_DIMENSIONS:
        raise ShapeError(f"write_idx: array must have 1 to {MAX_DIMENSIONS} dimensions, got shape {array.shape}")
    content = struct.pack(f">HBB{array.ndim}I", 0, code, array.ndim, *array.shape) + array.astype(DTYPES[code]).tobytes()
    if path.suffix == ".gz":
        content = gzip.compress(content, compresslevel=9, mtime=0)
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        aside.write_bytes(content)
        os.replace(aside, path)
    except OSError as fault:
        aside.unlink(missing_ok=True)
        raise DataError(f"{path}: cannot be written ({fault.strerror}); check the folder's permissions and free space") from None


def _read(path: Path, stream: BinaryIO, most_bytes: int) -> np.ndarray:
    """Header, data, and the end of the file; `most_bytes` bounds what the stream can hold, before memory is taken for it."""
    magic = _exactly(path, stream, 4, "header")
    if magic[:2] != b"\0\0":
        raise _damaged(path, f"not an idx file: it starts with bytes {magic.hex(' ')} instead of 00 00")
    if magic[2] not in DTYPES:
        known = ", ".join(f"0x{code:02x} {dtype.name}" for code, dtype in DTYPES.items())
        raise _damaged(path, f"unknown dtype code 0x{magic[2]:02x} (known are {known})")
    if not 1 <= magic[3] <= MAX_DIMENSIONS:
        raise _damaged(path, f"its header claims {magic[3]} dimensions, expected 1 to {MAX_DIMENSIONS}")
    shape = struct.unpack(f">{magic[3]}I", _exactly(path, stream, 4 * magic[3], "header"))
    dtype = DTYPES[magic[2]]
    header_bytes, data_bytes = 4 + 4 * len(shape), math.prod(shape) * dtype.itemsize
    claim = f"{' x '.join(map(str, shape))} {dtype.name}"
    if header_bytes + data_bytes > most_bytes or math.prod(max(extent, 1) for extent in shape) > _MAX_ELEMENTS:
        needed = f"needs {header_bytes + data_bytes:,} bytes, but the file can hold at most {most_bytes:,}"
        raise _damaged(path, f"truncated or altered: {claim}, as its header says, {needed}")
    try:
        data = np.empty(data_bytes, np.uint8)
    except MemoryError:
        raise _damaged(path, f"its header claims {claim}, more than this machine's free memory") from None
    view, filled = data.data, 0
    while filled < data_bytes:
        count = stream.readinto(view[filled : filled + _CHUNK_BYTES])  # type: ignore[attr-defined]
        if not count:
            raise _damaged(path, f"truncated: {filled:,} of the {data_bytes:,} data bytes of {claim} are there")
        filled += count
    if stream.read(1):  # at the end of a gzip stream this also checks its CRC and length
        raise _damaged(path, f"longer than its header says, which is {header_bytes:,} + {data_bytes:,} bytes for {claim}")
    return data.view(dtype).reshape(shape).astype(dtype.newbyteorder("="), copy=False)


def _exactly(path: Path, stream: BinaryIO, count: int, what: str) -> bytes:
    content = stream.read(count)
    if len(content) < count:
        raise _damaged(path, f"truncated: the file ends inside its {what}")
    return content


def _damaged(path: Path, fault: str) -> DataError:
    return DataError(f"{path}: {fault}; get the file again from its source")
