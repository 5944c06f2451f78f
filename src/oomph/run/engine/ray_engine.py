"""Starts gangs on a Ray cluster: `oomph run --engine ray`.

Ray hands out the places (`ray_seats.py`, a process of its own), and an agent on each (`agent.py`) runs the worker.
Places outlive an attempt, so that the next one starts as fast as on this machine. All are taken anew once one is lost.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from subprocess import PIPE
from typing import NamedTuple

import oomph
from oomph.errors import UsageError
from oomph.process.descriptors import readable
from oomph.process.own_process import without_own_variables
from oomph.run.directory.run_directory import read_record
from oomph.run.engine.remote import RemoteProcess, RemoteWatch
from oomph.run.engine.wire import Assignment, Lines, Message, line_of
from oomph.run.hang.limits import FLOOR_VARIABLE, Hang
from oomph.run.scheduled.allocation import TF_CONFIG
from oomph.run.supervisor.cluster import is_anyone_at, tf_config
from oomph.run.supervisor.engine import GangJob, NoRoomError, PlacedWorker
from oomph.terminal.message import shown_line

PACK = "PACK"
"""Ray's default strategy: as few nodes as possible."""
_SEATS = Path(__file__).with_name("ray_seats.py")
_CHUNK = 1 << 16
_PASSED_ON = ("TF_", "KERAS_", "XLA_", FLOOR_VARIABLE)
"""The beginnings of the names of the variables that workers get from here. All others are those of their machine."""
_REPLACEMENT_SECONDS, _AGAIN_SECONDS = 600.0, 0.5
"""The time to wait for nodes that replace lost ones, and the time between two looks."""
REUNION_SECONDS = 30.0
"""The time to wait for nodes that replace lost ones if fewer workers will do. Once it is over, these start."""
_START_SECONDS = 120.0
"""The time that the agents may take to start and to examine their machine."""
_LEAVE_SECONDS, _KILL_SECONDS = 3.0, 15.0
"""The time that the process that talks to Ray may take to leave by itself, and after SIGTERM."""
_MOST_STARTS = 3


class RayNode(NamedTuple):
    """The node on which a worker has its place."""

    host: str
    address: str


class SeatProcess:
    """The process that talks to Ray, and through it to the agents."""

    def __init__(self, python: str, address: str, resources: Mapping[str, float], strategy: str) -> None:
        """Start it. Raises UsageError if this Python cannot be started."""
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
        environ = without_own_variables(os.environ)
        try:
            self._process = subprocess.Popen(
                [python, str(_SEATS), address, json.dumps(dict(resources)), strategy],
                env=environ,
                stdin=PIPE,
                stdout=PIPE,
                stderr=self._log,
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            raise UsageError(f"{python} cannot be started: {error.strerror}") from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self.read_fd = self._stdout.fileno()
        self._lines = Lines()
        self.is_open = True
        self.processes: list[RemoteProcess] = []
        """The workers that have started, by rank, which get their agents' messages."""
        self._news: list[Message] = []
        """The messages that are for nobody who has started."""

    def tell(self, rank: int, message: Message) -> None:
        """Send a message to a worker's agent."""
        self.order({"do": "tell", "rank": rank, "message": message})

    def drop(self, rank: int) -> None:
        """Give up a worker's place, and whatever runs there."""
        self.order({"do": "drop", "rank": rank})

    def order(self, message: Message) -> None:
        """Send an order. Never raises: if nobody is there, the workers are lost."""
        data = memoryview(line_of(message))
        try:
            while data:
                data = data[os.write(self._stdin.fileno(), data) :]
        except OSError:
            pass

    def hear(self, seconds: float) -> None:
        """Wait for messages, and give each worker its own."""
        if not self.is_open:
            time.sleep(min(seconds, 0.1))
            return
        if not readable([self.read_fd], seconds):
            return
        data = os.read(self.read_fd, _CHUNK)
        for message in self._lines.take(data):
            self._deliver(message)
        if not data:
            self.is_open = False
            for process in self.processes:
                process.lose()

    def news(self, seconds: float) -> list[Message]:
        """Wait for messages, and return those for nobody who has started."""
        self.hear(seconds)
        news, self._news = self._news, []
        return news

    def last_words(self) -> str:
        """Return the last line that the process has printed, or an empty string."""
        self._log.seek(0)
        lines = self._log.read()[-_CHUNK:].decode(errors="replace").split("\n")
        return next((shown_line(line.strip()) for line in reversed(lines) if line.strip()), "")

    def close(self) -> None:
        """Let the process leave the cluster, or end one that it has started itself."""
        self._stdin.close()
        for seconds, end in ((_LEAVE_SECONDS, self._process.terminate), (_KILL_SECONDS, self._process.kill)):
            try:
                self._process.wait(seconds)
            except subprocess.TimeoutExpired:
                end()
        self._process.wait()
        self._stdout.close()
        self._log.close()

    def _deliver(self, message: Message) -> None:
        rank = message.get("rank")
        if not isinstance(rank, int) or not 0 <= rank < len(self.processes):
            self._news.append(message)
        elif message["is"] == "lost":
            self.processes[rank].lose()
        elif isinstance(message.get("message"), Mapping):
            self.processes[rank].take(message["message"])


class RayEngine:
    """Starts gangs on a Ray cluster.

    Args:
        python: the Python that has Ray.
        address: the address of the cluster, or "" for the one that Ray finds, or a new one on this machine.
        resources: the resources of each worker, by Ray's names, or None for a CPU and the same share of the GPUs.
        strategy: Ray's placement strategy.
    """

    def __init__(
        self,
        python: str,
        address: str = "",
        resources: Mapping[str, float] | None = None,
        strategy: str = PACK,
    ) -> None:
        self._python, self._address = python, address
        self._resources, self._strategy = resources or {}, strategy
        self._seats: SeatProcess | None = None
        self._addresses: tuple[str, ...] = ()
        """The addresses of the last workers that have started, by rank."""

    def connect(self, fewest: int, most: int) -> None:
        """Connect to the cluster, and take a place for each worker. Raises UsageError."""
        self._seats = SeatProcess(self._python, self._address, self._resources, self._strategy)
        answer = self._answer(self._seats, lambda: False)
        if answer["is"] == "ready":
            self._seats.order({"do": "take", "fewest": fewest, "most": most})
            answer = self._answer(self._seats, lambda: False)
        if answer["is"] == "unplaced":
            raise self._trouble(str(answer["text"]))

    def room(self, fewest: int, most: int, say: Callable[[str], None], called_off: Callable[[], bool]) -> int:
        """Take places, and return their number. See `WorkerEngine.room`."""
        return len(self._places(self._open(fewest, most), fewest, most, say, called_off))

    def start(
        self,
        job: GangJob,
        on_hang: Callable[[int, Hang], None],
        meanwhile: Callable[[], None],
        say: Callable[[str], None],
        called_off: Callable[[], bool],
    ) -> list[PlacedWorker]:
        """Start the workers, by rank. See `WorkerEngine.start`."""
        workers = len(job.run_dirs)
        for _ in range(_MOST_STARTS):
            seats = self._open(workers, workers)
            places = self._places(seats, workers, workers, say, called_off)
            seats.order({"do": "begin"})
            if self._answer(seats, called_off)["is"] != "begun":
                continue
            for rank, assignment in enumerate(_assignments(job)):
                seats.tell(rank, assignment._asdict())
            ports = self._ports(seats, places, called_off)
            if ports is not None:
                break
        else:
            raise NoRoomError(f"a node was lost while the workers started, {_MOST_STARTS} times in a row")
        self._addresses = tuple(f"{place.address}:{port}" for place, port in zip(places, ports, strict=True))
        seats.processes = [RemoteProcess(rank, seats, on_hang, meanwhile, say) for rank in range(workers)]
        for rank in range(workers):
            cluster = {TF_CONFIG: tf_config(self._addresses, rank)} if job.is_cluster else {}
            seats.tell(rank, {"do": "start", "environ": cluster})
        return [
            PlacedWorker(process, RemoteWatch(process), place.address)
            for process, place in zip(seats.processes, places, strict=True)
        ]

    def is_served(self, rank: int) -> bool:
        """True unless it is known that nobody listens at the worker's address."""
        host, _, port = self._addresses[rank].rpartition(":")
        return is_anyone_at(host, int(port))

    def close(self) -> None:
        """Leave the cluster, or end one that was started for this run."""
        if self._seats is not None:
            self._seats.close()
            self._seats = None

    def _open(self, fewest: int, most: int) -> SeatProcess:
        if self._seats is not None and not self._seats.is_open:
            self.close()
        if self._seats is None:
            self.connect(fewest, most)
        assert self._seats is not None
        self._seats.processes = []
        return self._seats

    def _places(
        self, seats: SeatProcess, fewest: int, most: int, say: Callable[[str], None], called_off: Callable[[], bool]
    ) -> list[RayNode]:
        """Return the node of each worker. Once nodes were lost, wait for others."""
        before, since, is_told = min(most, len(self._addresses)), time.monotonic(), False
        while True:
            waited = time.monotonic() - since
            seats.order({"do": "take", "fewest": least_wanted(fewest, before, waited), "most": most})
            answer = self._answer(seats, called_off)
            if answer["is"] == "taken":
                return [RayNode(str(host), str(address)) for host, address in answer["places"]]
            if answer.get("is_for_now") is not True or not before or waited > _REPLACEMENT_SECONDS:
                raise self._trouble(str(answer["text"]))
            if not is_told:
                is_told = True
                limit = f" for {REUNION_SECONDS:.0f} s" if fewest < before else ""
                say(f"{answer['text']}: waiting{limit} for other nodes")
            time.sleep(_AGAIN_SECONDS)

    def _answer(self, seats: SeatProcess, called_off: Callable[[], bool]) -> Message:
        """Return the answer to the last order. Raises UsageError or NoRoomError if none comes, or nobody waits."""
        while seats.is_open:
            if called_off():
                raise NoRoomError("stopped before the workers had their places")
            for message in seats.news(0.2):
                if message.get("is") in ("ready", "taken", "begun", "unplaced"):
                    return message
        words = seats.last_words()
        raise self._trouble(
            f"Ray does not start at {self._address or 'this machine'}" + (f": {words}" if words else "")
        )

    def _trouble(self, text: str) -> UsageError | NoRoomError:
        """Return the error that says why the workers cannot start: later, or elsewhere, what has once worked may."""
        return NoRoomError(text) if self._addresses else UsageError(text)

    def _ports(self, seats: SeatProcess, places: list[RayNode], called_off: Callable[[], bool]) -> list[int] | None:
        """Return the port that each worker's machine has chosen, or None if one of them was lost."""
        ports: dict[int, int] = {}
        until = time.monotonic() + _START_SECONDS
        while len(ports) < len(places):
            if called_off():
                raise NoRoomError("stopped before the workers had started")
            if not seats.is_open or time.monotonic() > until:
                return None
            for rank, said in _answers(seats.news(0.2)):
                if said is None:
                    return None
                if said.get("is") == "refused":
                    raise self._trouble(f"{_named(places[rank])} {said.get('text')}")
                if said.get("is") == "ready":
                    ports[rank] = int(said["port"])
        return [ports[rank] for rank in range(len(places))]


def least_wanted(fewest: int, before: int, waited_seconds: float) -> int:
    """Return the number of workers below which no attempt starts yet: for a while, it is as many as before."""
    return max(fewest, before) if waited_seconds < REUNION_SECONDS else fewest


def _named(place: RayNode) -> str:
    return place.address if place.host in ("", place.address) else f"{place.host} ({place.address})"


def _answers(news: list[Message]) -> Iterator[tuple[int, Message | None]]:
    """Yield what agents have answered: rank and message, or None for one that is lost."""
    for message in news:
        if message.get("is") == "lost":
            yield int(message["rank"]), None
        elif isinstance(message.get("message"), Mapping):
            yield int(message["rank"]), message["message"]


def _assignments(job: GangJob) -> Iterator[Assignment]:
    record = read_record(job.run_dirs[0])
    for rank, (run_dir, entropy) in enumerate(zip(job.run_dirs, job.entropies, strict=True)):
        yield Assignment(
            oomph=oomph.__version__,
            words=job.words,
            python=job.python,
            folder=str(job.folder),
            run_dir=str(run_dir),
            run="" if record is None else record.entropy,
            run_root=str(job.run_dirs[0]),
            entropy=entropy,
            rank=rank,
            workers=len(job.run_dirs),
            attempt=job.attempt,
            guarding=json.loads(json.dumps(job.guarding._asdict())),
            changes=tuple((change.name, change.value) for change in job.changes),
            environ=passed_on(os.environ),
        )


def passed_on(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that workers get from here."""
    return {name: value for name, value in environ.items() if name.startswith(_PASSED_ON) and name != TF_CONFIG}
