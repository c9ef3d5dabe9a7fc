"""Downloads: from servers in this process, whole and right or not at all; a machine without a network is not kept waiting."""

import hashlib
import socket
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from renaissance.data.sets import fetch as fetch_module
from renaissance.data.sets.fetch import RemoteFile, fetch, is_intact
from renaissance.errors import DataError

CONTENT = {"a.gz": b"first" * 5000, "b.gz": b"second" * 10}
FILES = [RemoteFile(name, len(content), hashlib.sha256(content).hexdigest()) for name, content in CONTENT.items()]


@contextmanager
def mirror(answer):
    """A server on this machine; answer(name) gives (status, content, claimed length). Yields its URL and the names asked for."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def reply(self, body):
            status, content, length = answer(self.path.rpartition("/")[2])
            self.send_response(status)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            if body:
                asked.append(self.path)
                self.wfile.write(content)

        def do_HEAD(self):
            self.reply(body=False)

        def do_GET(self):
            self.reply(body=True)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/set/", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def good(name):
    return 200, CONTENT[name], len(CONTENT[name])


@pytest.fixture
def closed_port():
    with socket.socket() as taken:  # bound but not listening: connections are refused at once
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}/"


def test_files_arrive_whole(tmp_path):
    with mirror(good) as (url, asked):
        fetch(FILES, [url], tmp_path / "new" / "set", name="Test")
        assert asked == ["/set/a.gz", "/set/b.gz"]
        assert {path.name: path.read_bytes() for path in (tmp_path / "new" / "set").iterdir()} == CONTENT
        fetch(FILES, [url], tmp_path / "new" / "set", name="Test")
        assert len(asked) == 2  # what is there costs no network


def test_only_missing_or_damaged_files_are_fetched(tmp_path):
    (tmp_path / "a.gz").write_bytes(CONTENT["a.gz"])
    (tmp_path / "b.gz").write_bytes(b"x" + CONTENT["b.gz"][1:])
    assert [is_intact(tmp_path / file.name, file) for file in FILES] == [True, False]
    with mirror(good) as (url, asked):
        fetch(FILES, [url], tmp_path, name="Test")
    assert asked == ["/set/b.gz"]
    assert all(is_intact(tmp_path / file.name, file) for file in FILES)


BAD_ANSWERS = {
    "altered": (lambda name: (200, b"x" * len(CONTENT[name]), len(CONTENT[name])), "SHA-256"),
    "longer": (lambda name: (200, CONTENT[name] + b"x" * 1000, len(CONTENT[name]) + 1000), "longer"),
    "shorter": (lambda name: (200, CONTENT[name][:7], 7), "7 bytes"),
    "broken off": (lambda name: (200, CONTENT[name][:7], len(CONTENT[name])), "7 bytes"),
    "absent": (lambda name: (404, b"", 0), "HTTP 404"),
}


@pytest.mark.parametrize("fault", BAD_ANSWERS)
def test_a_bad_mirror_is_named_and_leaves_nothing(tmp_path, fault):
    answer, word = BAD_ANSWERS[fault]
    with mirror(answer) as (url, _), pytest.raises(DataError) as caught:
        fetch(FILES, [url], tmp_path, name="Test")
    assert url in str(caught.value) and word in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("fault", BAD_ANSWERS)
def test_the_next_mirror_helps(tmp_path, fault, closed_port):
    with mirror(BAD_ANSWERS[fault][0]) as (bad, _), mirror(good) as (url, _):
        fetch(FILES, [closed_port, bad, url], tmp_path, name="Test")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == CONTENT


def test_no_network(tmp_path, closed_port):
    with pytest.raises(DataError, match="Connection refused"):
        fetch(FILES, [closed_port, closed_port + "other/"], tmp_path, name="Test")


def test_silence_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(fetch_module, "PROBE_SECONDS", 0.3)
    with socket.socket() as silent:  # takes connections and says nothing
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        start = time.monotonic()
        with pytest.raises(DataError, match="no answer|timed out"):
            fetch(FILES, [f"http://127.0.0.1:{silent.getsockname()[1]}/"], tmp_path, name="Test")
        assert time.monotonic() - start < 5


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with mirror(good) as (url, _), pytest.raises(DataError, match="file/set/a.gz: cannot be written"):
        fetch(FILES, [url], tmp_path / "file" / "set", name="Test")
