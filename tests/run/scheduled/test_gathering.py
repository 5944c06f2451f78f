"""Workers that meet in a folder: in any order, after any earlier start, and not without one another."""

from __future__ import annotations

import errno
import os
import random
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from oomph.errors import GatheringError, OomphError, RunDirectoryError, UsageError
from oomph.run.scheduled import gathering
from oomph.run.scheduled.allocation import Allocation
from oomph.run.scheduled.gathering import FOLDER, Gathering, Roster, port_of

SECONDS = 20.0


def _place(rank: int, workers: int = 2, **more: object) -> Allocation:
    return Allocation("Slurm", "slurm-1", rank, workers, f"node{rank}", **more)  # type: ignore[arg-type]


def _meet(path: Path, mine: Allocation, delay: float = 0.0, seconds: float = SECONDS) -> Roster:
    time.sleep(delay)
    meeting = Gathering(path, mine, lambda text: None, seconds)
    return meeting.call(7) if mine.rank == 0 else meeting.answer()


def _all_meet(path: Path, workers: int, delays: list[float]) -> list[Roster]:
    with ThreadPoolExecutor(workers) as pool:
        places = [_place(rank, workers) for rank in range(workers)]
        return list(pool.map(_meet, [path] * workers, places, delays))


def test_workers_that_come_in_any_order_agree(tmp_path: Path) -> None:
    draw = random.Random(1)
    calls = set()
    for _ in range(3):
        rosters = _all_meet(tmp_path, 4, [draw.uniform(0, 0.5) for _ in range(4)])
        assert len(set(rosters)) == 1
        assert rosters[0].attempts == 7
        assert [address.partition(":")[0] for address in rosters[0].addresses] == [f"node{rank}" for rank in range(4)]
        calls.add(rosters[0].call)
    assert len(calls) == 3


def test_files_of_an_earlier_start_are_nobodys_answer_even_from_the_future(tmp_path: Path) -> None:
    _all_meet(tmp_path, 2, [0, 0])
    for path in (tmp_path / FOLDER).iterdir():
        os.utime(path, (time.time() + 3600,) * 2)  # from a machine whose clock is an hour ahead
    with pytest.raises(GatheringError, match=r"worker 1 on node1 has waited .* for worker 0"):
        _meet(tmp_path, _place(1), seconds=0.5)
    with pytest.raises(GatheringError, match=r"worker 0 on node0 has waited .* for worker 1"):
        _meet(tmp_path, _place(0), seconds=0.5)
    assert len(set(_all_meet(tmp_path, 2, [0.3, 0]))) == 1


def test_folder_that_is_renamed_while_a_worker_waits_is_left(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.mkdir()
    _all_meet(path, 2, [0, 0])
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(_meet, path, _place(1))
        time.sleep(0.5)  # it has answered the old call
        path.rename(tmp_path / "run.1")
        path.mkdir()
        assert _meet(path, _place(0)) == waiting.result()


@pytest.mark.parametrize("rank", [0, 1])
def test_folder_that_is_not_shared_is_named_with_the_worker_and_its_machine(tmp_path: Path, rank: int) -> None:
    mine = _place(rank, hosts=("node0", "node1"), starts_together=True)
    other = rf"worker {1 - rank} \(node{1 - rank}\)"
    with pytest.raises(RunDirectoryError, match=rf"worker {rank} on node{rank} .* sees no file of {other}: the folder"):
        _meet(tmp_path, mine, seconds=0.5)


def test_pod_that_is_not_there_may_only_be_late(tmp_path: Path) -> None:
    with pytest.raises(GatheringError) as caught:
        _meet(tmp_path, _place(1), seconds=0.5)
    assert caught.value.exit_code == 75


@pytest.mark.parametrize("rank", [0, 1])
def test_different_numbers_of_workers_are_refused_by_both(tmp_path: Path, rank: int) -> None:
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(_meet, tmp_path, _place(each, 2 + each), seconds=2.0) for each in range(2)]
    with pytest.raises(UsageError, match=rf"worker {rank} on node{rank} is one of {2 + rank}, but worker"):
        both[rank].result()


def test_worker_that_waits_says_for_whom_once(tmp_path: Path) -> None:
    said: list[str] = []
    with pytest.raises(GatheringError):
        Gathering(tmp_path, _place(0, 3), said.append, 2.6).call(0)
    assert said == [f"worker 0 on node0, one of 3, waits for worker 1 and worker 2 in {tmp_path}, up to 3 s"]


def test_second_process_of_a_rank_names_it_and_the_machine_of_the_first(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        chief = pool.submit(_meet, tmp_path, _place(0, 3))
        same = [pool.submit(_meet, tmp_path, _place(1, 3)) for _ in range(2)]
        time.sleep(1)
        pool.submit(_meet, tmp_path, _place(2, 3))
        errors = [error for each in same if (error := each.exception()) is not None]
        assert chief.result() in [each.result() for each in same if each.exception() is None]
    (error,) = errors
    assert isinstance(error, UsageError)
    assert "worker 1 on node1: another process, at node1:" in str(error)
    assert str(error).endswith("is worker 1 as well; give each its own rank")


def test_workers_that_run_different_commands_are_named(tmp_path: Path) -> None:
    said: list[str] = []
    commands = [("a.py", "--x"), ("a.py", "--x"), ("b.py", "\x1b[31m"), ("c.py",)]
    with ThreadPoolExecutor(4) as pool:
        places = [Gathering(tmp_path, _place(rank, 4), said.append, SECONDS, commands[rank]) for rank in range(4)]
        others = [pool.submit(each.answer) for each in places[1:]]
        assert {places[0].call(0)} == {each.result() for each in others}
    assert said == [
        "worker 2 on node2 runs `b.py '\\x1b[31m'`, and worker 0 `a.py --x`: not the same command, as does 1 more"
    ]


def test_worker_that_refuses_the_run_ends_and_the_others_learn_who(tmp_path: Path) -> None:
    def refuse() -> None:
        raise RunDirectoryError("r is a run of a.py, not of b.py")

    with ThreadPoolExecutor(2) as pool:
        chief = pool.submit(_meet, tmp_path, _place(0))
        with pytest.raises(RunDirectoryError, match=r"^worker 1 on node1: r is a run of a.py, not of b.py$"):
            Gathering(tmp_path, _place(1), lambda text: None, SECONDS).answer(refuse)
        with pytest.raises(RunDirectoryError, match=r"^worker 1 on node1 has ended: r is a run of a.py, not of b.py$"):
            chief.result()


@pytest.mark.parametrize("code", [errno.EROFS, errno.ENOSPC])
def test_worker_that_cannot_write_says_so_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def fails(**_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("tempfile.TemporaryFile", fails)
    with pytest.raises(RunDirectoryError, match=rf"^worker 1 on node1: .* cannot be written: {os.strerror(code)}$"):
        _meet(tmp_path / "run", _place(1))


def test_port_taken_instead_lies_in_the_range_and_differs_on_one_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [port_of("slurm-1", rank) for rank in range(2)]
    monkeypatch.setattr(gathering, "_is_free", lambda port: port not in wanted)
    said: list[str] = []
    for rank in range(2):
        Gathering(Path(), _place(rank), said.append)
    taken = [int(line.rpartition(" ")[2]) for line in said]
    assert taken == [port + 2 for port in wanted]
    assert {12000 <= port <= 33000 for port in gathering._from(wanted[0], 7)} == {True}
    monkeypatch.setattr(gathering, "_is_free", lambda port: False)
    with pytest.raises(UsageError, match=rf"port {wanted[0]} is taken, and so are all others up to 33000"):
        Gathering(Path(), _place(0), said.append)


def test_port_follows_from_the_job_unless_it_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    with socket.create_server(("", 0)) as one:
        taken = one.getsockname()[1]
        monkeypatch.setattr(gathering, "port_of", lambda job, rank: taken)
        Gathering(tmp_path, _place(1), said.append)
    assert len(said) == 1
    assert said[0].startswith(f"worker 1 on node1: port {taken} is taken, using ")
    assert port_of("slurm-1", 1) == port_of("slurm-1", 0) + 1 != port_of("slurm-2", 1)


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"schema": 1}', b'{"schema": 1, "workers": true, "tokens": [1]}'],
)
def test_damaged_file_counts_as_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "0.json").write_bytes(content)
    with pytest.raises(OomphError, match=r"worker 1 on node1 has waited"):
        _meet(tmp_path, _place(1), seconds=0.3)


def test_file_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    _all_meet(outside, 2, [0, 0])
    run = tmp_path / "run"
    (run / FOLDER).mkdir(parents=True)
    (run / FOLDER / "0.json").symlink_to(outside / FOLDER / "0.json")
    with pytest.raises(GatheringError):
        _meet(run, _place(1), seconds=0.3)
