"""The store on a real S3 server over HTTP, which refuses, breaks off or hangs (`make store-lane`)."""

from __future__ import annotations

import http.client
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from stores import ELSEWHERE, TRAINS, copied_steps, elsewhere, said, trained

from oomph.run.store.claims import claim_after, newest_claim, newest_manifest
from oomph.run.store.object_store import ObjectStore

s3fs = pytest.importorskip("s3fs", reason="make store-lane installs it")
moto_server = pytest.importorskip("moto.server", reason="make store-lane installs it")
pytestmark = pytest.mark.filterwarnings("default")  # those of botocore and moto are not ours
KEY, SECRET = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
DENIED = b"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"


class Way(ThreadingHTTPServer):
    """The way to the server, on which requests may be disturbed."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        self.port, self.fault = port, ""
        self.left, self.seen = 10**9, threading.Event()
        super().__init__(("127.0.0.1", 0), _Passage)


class _Passage(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Way

    def _pass(self) -> None:
        is_disturbed = self.command == "PUT" and bool(self.server.fault) and self.server.left > 0
        if is_disturbed:
            self.server.left -= 1
            self.server.seen.set()
            if self.server.fault == "cut":
                self.rfile.read(10)
                self.close_connection = True
                self.connection.close()
                return
            if self.server.fault == "hang":
                threading.Event().wait(60)
        if self.headers.get("Expect"):
            self.send_response_only(100)
            self.end_headers()
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if is_disturbed:
            self._answer(403, [], DENIED)
            return
        there = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=30)
        headers = {name: value for name, value in self.headers.items() if name not in ("Expect", "Connection")}
        there.request(self.command, self.path, body, headers)
        answer = there.getresponse()
        self._answer(answer.status, answer.getheaders(), answer.read())
        there.close()

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        length = next((value for name, value in headers if name.lower() == "content-length"), str(len(body)))
        self.send_header("Content-Length", length if self.command == "HEAD" else str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _pass

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[int]:
    running = moto_server.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    running.start()
    yield running.get_host_and_port()[1]
    running.stop()


@pytest.fixture
def way(server: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Way]:
    opened = Way(server)
    thread = threading.Thread(target=opened.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{opened.server_address[1]}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("FSSPEC_S3_CONFIG_KWARGS", '{"retries": {"max_attempts": 1}}')
    yield opened
    opened.shutdown()
    opened.server_close()


@pytest.fixture
def url(way: Way, request: pytest.FixtureRequest) -> str:
    bucket = f"bucket-{abs(hash(request.node.name)) % 10**9}"
    s3fs.S3FileSystem(skip_instance_cache=True).mkdir(bucket)
    return f"s3://{bucket}/prefix/run"


def test_run_killed_during_an_upload_resumes_elsewhere_as_if_undisturbed(work, url, way, wait_until):
    work.script(TRAINS)
    (work.folder / "hold").touch()
    first = work.start("--store", url, "train.py")
    wait_until(lambda: copied_steps(url), lambda found: len(found) == 2)
    before = newest_manifest(ObjectStore(url), newest_claim(ObjectStore(url)))
    way.fault = "hang"
    way.seen.clear()
    (work.folder / "hold").unlink()
    assert way.seen.wait(30), "an upload is under way"
    os.killpg(first.pid, signal.SIGKILL)
    first.wait(20)
    way.fault = ""
    assert newest_manifest(ObjectStore(url), newest_claim(ObjectStore(url))) == before
    there = elsewhere(work)
    again = there.run("--resume", "--store", url, "train.py")
    assert again.returncode == 0, again.stderr
    assert b"resumed from 8" in again.stdout
    assert (there.folder / "result-0").read_bytes() == trained()


def test_connection_cut_in_the_middle_of_uploads_is_survived(work, url, way, wait_until):
    work.script(TRAINS)
    way.left = 6
    (work.folder / "hold").touch()
    process = work.start("--store", url, "train.py", "fail")
    wait_until(lambda: newest_claim(ObjectStore(url)))
    way.fault = "cut"
    assert way.seen.wait(30)
    wait_until(lambda: copied_steps(url), seconds=60)
    (work.folder / "hold").unlink()
    _, stderr = process.communicate(timeout=100)
    assert process.returncode == 3
    assert way.left == 0
    assert "not in the store" not in said(stderr)
    assert copied_steps(url) == sorted(f"checkpoints/{path.name}" for path in work.run_dir.glob("checkpoints/*"))


def test_store_that_forbids_writing_is_refused_at_the_start(work, url, way):
    work.script("print('never')")
    way.fault = "deny"
    ended = work.run("--store", url, "train.py")
    assert ended.returncode == 2
    assert said(ended.stderr) == f"{url} cannot be written to: permission denied"


def test_store_that_forbids_writing_later_does_not_stop_the_training(work, url, way, wait_until):
    work.script(TRAINS)
    (work.folder / "hold").touch()
    process = work.start("--store", url, "train.py", "fail")
    wait_until(lambda: copied_steps(url))
    way.fault = "deny"
    (work.folder / "hold").unlink()
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 3
    assert (work.folder / "result-0").read_bytes() == trained()
    assert said(stderr).count("cannot be written to: permission denied; the training goes on") == 1
    assert f"not in the store {url}: checkpoints/step-" in said(stderr)


def test_missing_bucket_is_one_sentence(work, way):
    work.script("print('never')")
    ended = work.run("--store", "s3://no-such-bucket/x", "train.py")
    assert ended.returncode == 2
    assert said(ended.stderr) == "s3://no-such-bucket/x cannot be written to: the bucket or folder does not exist"


def test_each_generation_is_claimed_by_one_of_many_at_once(url):
    objects = [ObjectStore(url) for _ in range(6)]
    with ThreadPoolExecutor(6) as threads:
        claims = list(threads.map(lambda each: claim_after(each, None, ELSEWHERE), objects))
    assert sorted(claim.generation for claim in claims) == [1, 2, 3, 4, 5, 6]
    assert newest_claim(objects[0]).generation == 6


def test_two_writers_never_write_the_same_run(work, url, wait_until):
    work.script(TRAINS)
    (work.folder / "hold").touch()
    first = work.start("--store", url, "train.py", "fail")
    wait_until(lambda: copied_steps(url))
    objects = ObjectStore(url)
    claim_after(objects, newest_claim(objects), ELSEWHERE)  # by an oomph on another host
    before = newest_manifest(objects, newest_claim(objects))
    (work.folder / "hold").unlink()
    _, stderr = first.communicate(timeout=60)
    assert f"nothing more is copied to {url}: another oomph run, process 7 on elsewhere, writes it now" in said(stderr)
    assert newest_manifest(objects, newest_claim(objects)) == before


def test_credentials_are_stored_and_printed_nowhere(work, url, way):
    work.script(TRAINS)
    ended = work.run("--store", url, "train.py", "fail")
    found = [path for path in work.folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert found == []
    assert SECRET.encode() not in ended.stderr + ended.stdout
    objects = ObjectStore(url)
    manifest = newest_manifest(objects, newest_claim(objects))
    assert not [part for part in manifest.parts if SECRET.encode() in objects.read(part.name, part.nbytes)]


def test_folder_that_was_fetched_is_not_left_half(work, url, way):
    work.script(TRAINS)
    assert work.run("--store", url, "train.py", "fail").returncode == 3
    objects = ObjectStore(url)
    part = next(iter(newest_manifest(objects, newest_claim(objects)).parts))
    objects.write(part.name, bytes(part.nbytes))
    there = elsewhere(work)
    ended = there.run("--resume", "--store", url, "train.py", "fail")
    assert ended.returncode == 2
    assert "does not match its digest" in said(ended.stderr)
    assert not list((there.folder / ".oomph" / "runs").glob("2*"))
