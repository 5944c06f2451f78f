"""The store at a URL as Ray takes it for its `storage_path`, through pyarrow, on a real S3 server (`make ray-lane`)."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from stores import TRAINS, elsewhere, trained

from oomph.errors import StoreError
from oomph.run.store.object_store import ObjectStore, reason_of


def test_options_of_pyarrow_in_the_url_need_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.fs", None)
    with pytest.raises(StoreError, match=r"s3://bucket/run needs a package that is missing: pip install .* pyarrow$"):
        ObjectStore("s3://bucket/run?endpoint_override=127.0.0.1:1")


@pytest.mark.parametrize(
    ("code", "reason"),
    [("ACCESS_DENIED", "permission denied"), ("NO_SUCH_BUCKET", "the bucket or folder does not exist")],
)
def test_errors_of_pyarrow_are_said_as_those_of_other_packages(code: str, reason: str) -> None:
    said = f"When initiating multiple part upload for key 'a' in bucket 'b': AWS Error {code} during CreateMultipart"
    assert reason_of(OSError(said)) == reason


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    moto_server = pytest.importorskip("moto.server", reason="make ray-lane installs it")
    running = moto_server.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    running.start()
    yield "{}:{}".format(*running.get_host_and_port())
    running.stop()


@pytest.fixture
def url(server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    arrow = pytest.importorskip("pyarrow.fs", reason="make ray-lane installs it")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    options = f"scheme=http&region=us-east-1&endpoint_override={server}"
    files, bucket = arrow.FileSystem.from_uri(f"s3://bucket?allow_bucket_creation=true&{options}")
    files.create_dir(bucket)
    return f"s3://bucket/results/first?{options}"


def test_objects_are_written_read_created_once_listed_and_removed(url: str) -> None:
    objects = ObjectStore(url)
    assert objects.shown == "s3://bucket/results/first"
    assert objects.read("g/a", 9) is None
    objects.write("g/a", b"12345")
    assert (objects.read("g/a", 3), objects.read("g/a", 9)) == (b"123", b"12345")
    assert (objects.create("g/b", b"x"), objects.create("g/b", b"y")) == (True, False)
    assert objects.listed("g") == ["g/a", "g/b"]
    objects.remove(["g/a", "g/none"])
    assert objects.listed("g") == ["g/b"]


def test_missing_bucket_is_one_sentence(url: str) -> None:
    with pytest.raises(StoreError, match=r"s3://other/results/first cannot be .*: the bucket or folder does not exist"):
        ObjectStore(url.replace("//bucket", "//other")).write("a", b"x")


def test_run_is_resumed_elsewhere_from_where_ray_keeps_its_results(work, url) -> None:
    work.script(TRAINS)
    assert work.run("--store", url, "train.py", "fail").returncode == 3
    there = elsewhere(work)
    again = there.run("--resume", "--store", url, "train.py", "fail")
    assert again.returncode == 3, again.stderr
    assert b"resumed from 20" in again.stdout
    assert (there.folder / "result-0").read_bytes() == trained()
