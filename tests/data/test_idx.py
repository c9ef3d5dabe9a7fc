"""idx files: what is written is read back; every damaged file is refused by a DataError that names its path."""

import gzip
import struct

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from renaissance.data.idx import DTYPES, read_idx, write_idx
from renaissance.errors import DataError, DTypeError, ShapeError

IMAGES = np.arange(5 * 4 * 3, dtype=np.uint8).reshape(5, 4, 3)
files = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def idx_bytes(shape, code=8, data=None):
    header = struct.pack(f">HBB{len(shape)}I", 0, code, len(shape), *shape)
    return header + (bytes(int(np.prod(shape)) * DTYPES[code].itemsize) if data is None else data)


def refused(path, *words):
    with pytest.raises(DataError) as caught:
        read_idx(path)
    message = str(caught.value)
    assert str(path) in message
    for word in words:
        assert word in message
    return message


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("dtype", [dtype.name for dtype in DTYPES.values()])
def test_round_trip(tmp_path, suffix, dtype):
    array = (np.arange(24) * 5 - 60).astype(dtype).reshape(2, 3, 4)
    write_idx(tmp_path / f"a{suffix}", array)
    back = read_idx(tmp_path / f"a{suffix}")
    assert back.dtype == array.dtype and back.dtype.isnative
    assert np.array_equal(back, array)
    back[0] = 0  # owned, so the caller may write to it


def test_bytes_are_those_of_the_format(tmp_path):
    write_idx(tmp_path / "a", np.array([[1, -2]], np.int16))
    assert (tmp_path / "a").read_bytes() == bytes.fromhex("00000b02 00000001 00000002 0001 fffe")


def test_equal_arrays_give_equal_gzip_files(tmp_path):
    write_idx(tmp_path / "a.gz", IMAGES)
    write_idx(tmp_path / "b.gz", IMAGES)
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


def test_compression_is_told_by_content_not_by_name(tmp_path):
    (tmp_path / "a.gz").write_bytes(idx_bytes((3,), data=b"abc"))
    (tmp_path / "b").write_bytes(gzip.compress(idx_bytes((3,), data=b"abc")))
    assert read_idx(tmp_path / "a.gz").tobytes() == read_idx(tmp_path / "b").tobytes() == b"abc"


def test_no_elements(tmp_path):
    (tmp_path / "a").write_bytes(idx_bytes((0, 28, 28)))
    assert read_idx(tmp_path / "a").shape == (0, 28, 28)


def test_write_refuses_what_the_format_cannot_hold(tmp_path):
    with pytest.raises(DTypeError, match="int64"):
        write_idx(tmp_path / "a", np.zeros(3, np.int64))
    with pytest.raises(ShapeError, match=r"\(\)"):
        write_idx(tmp_path / "a", np.uint8(3))
    with pytest.raises(DataError, match="nowhere"):
        write_idx(tmp_path / "nowhere" / "a", IMAGES)
    assert list(tmp_path.iterdir()) == []


def test_missing_file_and_folder(tmp_path):
    refused(tmp_path / "absent", "no such file")
    refused(tmp_path, "folder")


@pytest.mark.parametrize(
    "content, words",
    [
        (b"", ["truncated", "header"]),
        (b"\0\0\x08", ["truncated", "header"]),
        (b"\0\0\x08\x03" + bytes(11), ["truncated", "header"]),
        (b"PNG!" + bytes(20), ["not an idx file", "50 4e"]),
        (b"\0\0\x0a\x01" + bytes(20), ["dtype code 0x0a", "0x08 uint8"]),
        (b"\0\0\x08\0" + bytes(20), ["0 dimensions"]),
        (b"\0\0\x08\xff" + bytes(2000), ["255 dimensions"]),
        (idx_bytes((5, 2))[:-1], ["truncated", "5 x 2 uint8", "needs 22 bytes", "at most 21"]),
        (idx_bytes((5, 2)) + b"\0", ["longer than its header says"]),
        (idx_bytes((2**32 - 1, 2**32 - 1, 2**32 - 1), data=b""), ["can hold at most"]),
        (idx_bytes((0, *[2**32 - 1] * 5), data=b""), ["can hold at most"]),
    ],
)
def test_faults_are_named(tmp_path, content, words):
    path = tmp_path / "digits-idx3-ubyte"
    path.write_bytes(content)
    refused(path, *words)


def test_gzip_faults_are_named(tmp_path):
    path = tmp_path / "digits.gz"
    whole = gzip.compress(idx_bytes((100, 10), data=np.random.default_rng(0).bytes(1000)))
    path.write_bytes(whole[:-5])
    refused(path, "truncated")
    path.write_bytes(whole[:-8] + bytes(4) + whole[-4:])
    refused(path, "altered", "CRC")
    path.write_bytes(whole + b"tail")
    refused(path, "altered")
    path.write_bytes(whole + gzip.compress(b"x"))
    refused(path, "longer")
    path.write_bytes(gzip.compress(idx_bytes((100, 10))[:-1]))
    refused(path, "truncated", "999")
    path.write_bytes(gzip.compress(idx_bytes((60000, 28, 28), data=b"")))
    refused(path, "can hold at most")  # no memory is taken for a claim that cannot be true


def test_unreadable_file_is_named(tmp_path, monkeypatch):
    path = tmp_path / "a"
    write_idx(path, IMAGES)

    def denied(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", denied)
    refused(path, "Permission denied")


@files
@given(cut=st.integers(min_value=0), zipped=st.booleans())
def test_every_truncation_is_refused(tmp_path, cut, zipped):
    path = tmp_path / "a"
    content = idx_bytes(IMAGES.shape, data=IMAGES.tobytes())
    content = gzip.compress(content) if zipped else content
    path.write_bytes(content[: cut % len(content)])
    refused(path)


@files
@given(position=st.integers(min_value=0), bit=st.integers(0, 7))
def test_a_flipped_bit_in_gzip_never_gives_other_numbers(tmp_path, position, bit):
    path = tmp_path / "a.gz"
    content = bytearray(gzip.compress(idx_bytes(IMAGES.shape, data=IMAGES.tobytes()), mtime=0))
    content[position % len(content)] ^= 1 << bit
    path.write_bytes(content)
    try:
        back = read_idx(path)
    except DataError as fault:
        assert str(path) in str(fault)
    else:  # bits of the gzip header that mean nothing, such as the time
        assert np.array_equal(back, IMAGES)


STARTS = [b"", b"\0\0\x08\x01", b"\0\0\x0d\x02\0\0", b"\x1f\x8b\x08", b"\x1f\x8b\x08\x1c"]


@files
@given(content=st.binary(max_size=200), start=st.sampled_from(STARTS))
def test_any_bytes_are_read_or_refused(tmp_path, content, start):
    path = tmp_path / "a"
    path.write_bytes(start + content)
    try:
        assert isinstance(read_idx(path), np.ndarray)
    except DataError as fault:
        assert str(path) in str(fault)
