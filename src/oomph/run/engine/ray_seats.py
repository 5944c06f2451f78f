"""Gets places for workers from Ray, and connects the agents there to the supervisor: `python ray_seats.py`.

Runs in the script's Python, which has Ray, and needs nothing of oomph there: the supervisor itself stays free of Ray,
its threads and its handlers. A seat is an actor that reserves a worker's CPU and GPUs on a node, and starts the agent.
Ray restarts nothing: what an ending means, and what follows, is decided by the supervisor.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import json
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

MAJOR = 2
"""The major version of Ray whose names are used here."""
_AGENT = "oomph.run.engine.agent"
_LOCAL_STORE_BYTES = 100 << 20
"""The size of the object store of a local cluster, through which nothing but orders passes."""
_CONNECT_SECONDS = 5.0
_PLACE_SECONDS = 60.0
_LOOK_SECONDS = 1.0
"""The time between two looks at the nodes while places are awaited."""
_TURN_SECONDS = 0.05
_CHUNK = 1 << 16
_RAY_CLIENT = "ray://"
_ROUNDING = 1e-9
"""The rounding error of a quotient of resources, which may be fractions."""


class NoSeatError(Exception):
    """The cluster cannot be used, or cannot run the workers. `is_for_now` is True if more nodes would help."""

    def __init__(self, text: str, is_for_now: bool = False) -> None:
        super().__init__(text)
        self.is_for_now = is_for_now


class WantedSeats(NamedTuple):
    """The places that the user wants, in the terms of Ray's `ScalingConfig`."""

    needs: Mapping[str, float] = {}
    """The resources of each worker, or nothing to leave the choice to oomph."""
    strategy: str = "PACK"


class SeatShares(NamedTuple):
    """The places that a cluster can give."""

    workers: int
    needs: Mapping[str, float]
    """The resources of each worker."""


class Seat:
    """An actor on a node: starts an agent there, and passes messages in both directions."""

    def look(self) -> dict[str, Any]:
        """Return where this is, and if an agent can run here."""
        import ray

        found = importlib.util.find_spec(_AGENT.partition(".")[0])
        return {
            "host": socket.gethostname(),
            "address": ray.util.get_node_ip_address(),
            "node": ray.get_runtime_context().get_node_id(),
            "python": sys.executable,
            "oomph": found is not None,
        }

    def begin(self) -> None:
        """Start an agent. It ends with this process, whose end it notices at its stdin."""
        words = [sys.executable, "-m", _AGENT]
        pipe = subprocess.PIPE
        self._agent: Any = subprocess.Popen(
            words, stdin=pipe, stdout=pipe, cwd="/", start_new_session=True, bufsize=0
        )  # in "/", where no file of the user's hides a module

    def tell(self, line: bytes) -> None:
        """Send a line to the agent."""
        with contextlib.suppress(OSError):  # it has ended: `hear` tells
            self._agent.stdin.write(line)

    def hear(self) -> bytes:
        """Wait for output of the agent, and return it. It is empty once the agent has ended."""
        data = os.read(self._agent.stdout.fileno(), _CHUNK)
        if not data:
            self._agent.wait()
        return data


def why_no_ray() -> str:
    """Explain why Ray cannot be used from this Python, or return an empty string."""
    install = f'{shlex.quote(sys.executable)} -m pip install "oomph[ray]"'
    try:
        version = importlib.metadata.version("ray")
    except importlib.metadata.PackageNotFoundError:
        return f"{sys.executable} has no Ray: {install}"
    if version.partition(".")[0] != str(MAJOR):
        return f"{sys.executable} has Ray {version}, and oomph supports Ray {MAJOR}: {install}"
    return ""


def why_not_reached(address: str) -> str:
    """Explain why nobody answers at an address, or return an empty string. Ray itself would wait for a minute."""
    host, _, port = address.removeprefix(_RAY_CLIENT).rpartition(":")
    if not host or not port.isdecimal():
        return ""  # "auto", "local": Ray knows better
    try:
        socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        return f"no Ray cluster answers at {address}: {getattr(error, 'strerror', None) or error}"
    return ""


def room_for(nodes: Sequence[Mapping[str, float]], needs: Mapping[str, float], strategy: str) -> int:
    """Return the number of workers with these needs for which nodes with these resources have room."""
    each = [min(int(node.get(name, 0) / amount + _ROUNDING) for name, amount in needs.items()) for node in nodes]
    if strategy == "STRICT_PACK":
        return max(each, default=0)
    return sum(count > 0 for count in each) if strategy == "STRICT_SPREAD" else sum(each)


def shares(nodes: Sequence[Mapping[str, float]], fewest: int, most: int, wanted: WantedSeats) -> SeatShares:
    """Return how many workers fit on nodes with these resources, and what each of them gets. Raises NoSeatError.

    Without other wishes, each gets a CPU, and the same number of GPUs as the others, as many as fit.
    """
    gpus = sum(int(node.get("GPU", 0)) for node in nodes)
    needs = wanted.needs or {"CPU": 1, **({"GPU": 1} if gpus else {})}
    workers = min(most, room_for(nodes, needs, wanted.strategy))
    if workers < fewest:
        raise NoSeatError(_too_small(nodes, fewest, workers, needs, wanted), is_for_now=True)
    if wanted.needs or not gpus:
        return SeatShares(workers, needs)
    larger = ({**needs, "GPU": count} for count in range(gpus // workers, 0, -1))
    return next(SeatShares(workers, found) for found in larger if room_for(nodes, found, wanted.strategy) >= workers)


def _too_small(
    nodes: Sequence[Mapping[str, float]], fewest: int, room: int, needs: Mapping[str, float], wanted: WantedSeats
) -> str:
    """Say why a cluster has no room for the fewest workers that may start."""
    for name in () if wanted.needs else needs:
        total = sum(int(node.get(name, 0)) for node in nodes)
        if total < fewest:
            return f"{fewest} workers need a {name} each, and the cluster has {total}"
    each = " and ".join(f"{amount:g} {name}" for name, amount in needs.items())
    return f"{fewest} workers need {each} each, placed by {wanted.strategy}, and the cluster has room for {room}"


class Seats:
    """The seats of one gang on a cluster."""

    def __init__(self, ray: Any, address: str, wanted: WantedSeats) -> None:
        """Connect to the cluster, or start one on this machine if there is none. Raises NoSeatError."""
        self._ray, self._wanted = ray, wanted
        self._needs: Mapping[str, float] = {}
        """The resources of each seat."""
        self._group: Any = None
        self._seats: list[Any] = []
        """The actors, by rank."""
        self._places: list[dict[str, Any]] = []
        """The answers of `Seat.look`, by rank."""
        self._hearing: dict[Any, int] = {}
        """The rank of the agent whose next output each of Ray's references stands for."""
        self._rests: list[bytes] = []
        """The beginning of a line that each agent has not finished."""
        options = {"log_to_driver": False, "logging_level": "ERROR"}
        local = {"address": "local", "object_store_memory": _LOCAL_STORE_BYTES, "include_dashboard": False}
        where = address or os.environ.get("RAY_ADDRESS") or "auto"
        try:
            ray.init(**({"address": where} if where != "local" else local), **options)
        except ConnectionError as error:
            if address or where != "auto":
                raise NoSeatError(f"Ray does not connect to {where}: {_first_line(error)}") from None
            ray.init(**local, **options)

    def __enter__(self) -> Seats:
        return self

    def __exit__(self, *error: object) -> None:
        self.clear()

    def take(self, fewest: int, most: int) -> list[dict[str, Any]]:
        """Take a seat for as many workers as there is room for, and return the places, by rank. Raises NoSeatError.

        Seats are kept if all are still there, and there is no room for more.
        """
        if len(self._seats) < fewest or not self._are_all_there() or self._is_room_for_more(most):
            self.clear()
            try:
                self._take_seats(fewest, most)
            except NoSeatError:
                self.clear()
                raise
        return self._places

    def begin(self) -> None:
        """Start an agent on each seat."""
        self._ray.get([seat.begin.remote() for seat in self._seats], timeout=_PLACE_SECONDS)
        self._hearing = {seat.hear.remote(): rank for rank, seat in enumerate(self._seats)}
        self._rests = [b""] * len(self._seats)

    def tell(self, rank: int, line: bytes) -> None:
        """Send a line to a worker's agent."""
        if rank < len(self._seats):
            self._seats[rank].tell.remote(line)

    def hear(self, seconds: float) -> list[tuple[int, list[bytes] | None]]:
        """Return what the agents have written in this time: (rank, lines), or (rank, None) for one that is gone."""
        if not self._hearing:
            time.sleep(seconds)
            return []
        ready, _ = self._ray.wait(list(self._hearing), num_returns=1, timeout=seconds)
        return [self._heard(each, self._hearing.pop(each)) for each in ready]

    def drop(self, rank: int) -> None:
        """Kill a seat that does not answer, and with it its agent and its worker."""
        if rank < len(self._seats):
            self._ray.kill(self._seats[rank])

    def clear(self) -> None:
        """Give all seats back."""
        for seat in self._seats:
            with contextlib.suppress(Exception):
                self._ray.kill(seat)
        if self._group is not None:
            with contextlib.suppress(Exception):
                self._ray.util.remove_placement_group(self._group)
        self._group, self._seats, self._places, self._hearing = None, [], [], {}

    def _heard(self, ref: Any, rank: int) -> tuple[int, list[bytes] | None]:
        try:
            data = self._ray.get(ref)
        except Exception:
            return rank, None  # the actor or its node is gone
        if not data:
            return rank, None  # the agent has ended; if it had not said how its worker did, that is lost
        self._hearing[self._seats[rank].hear.remote()] = rank
        *lines, self._rests[rank] = (self._rests[rank] + data).split(b"\n")
        return rank, lines

    def _are_all_there(self) -> bool:
        try:
            looks: Any = self._ray.get([seat.look.remote() for seat in self._seats], timeout=_PLACE_SECONDS)
        except Exception:
            return False
        return bool(looks == self._places)

    def _nodes(self) -> list[Mapping[str, float]]:
        return [node["Resources"] for node in self._ray.nodes() if node["Alive"]]

    def _is_room_for_more(self, most: int) -> bool:
        taken = len(self._seats)
        if taken >= most:
            return False
        free = room_for([self._ray.available_resources()], self._needs, "PACK")
        return taken < min(taken + free, room_for(self._nodes(), self._needs, self._wanted.strategy))

    def _take_seats(self, fewest: int, most: int) -> None:
        wanted = self._wanted
        while not self._are_taken(found := shares(self._nodes(), fewest, most, wanted), fewest, most, wanted):
            self.clear()
            if shares(self._nodes(), fewest, most, wanted) == found:  # others use them
                wanted = wanted._replace(needs=found.needs)  # what is free does not grow with fewer workers
                most = min(found.workers - 1, room_for([self._ray.available_resources()], found.needs, "PACK"))
                if most < fewest:
                    why = f"the cluster has room for {found.workers} workers, but others use it"
                    raise NoSeatError(why, is_for_now=True)
        self._needs = found.needs
        for place in self._places:
            if not place["oomph"]:
                raise NoSeatError(
                    f"{place['address']} has no oomph in {place['python']}: install the same version on all nodes"
                )

    def _are_taken(self, found: SeatShares, fewest: int, most: int, wanted: WantedSeats) -> bool:
        """Try to take seats. Return False if they are not free in time, or nodes come or go. Raises NoSeatError."""
        ray = self._ray
        self._group = ray.util.placement_group([dict(found.needs)] * found.workers, strategy=wanted.strategy)
        ready, until = self._group.ready(), time.monotonic() + _PLACE_SECONDS
        try:
            while not ray.wait([ready], num_returns=1, timeout=_LOOK_SECONDS)[0]:
                if time.monotonic() > until or shares(self._nodes(), fewest, most, wanted) != found:
                    return False
            self._seats = [self._actor(found.needs, rank) for rank in range(found.workers)]
            self._places = ray.get([seat.look.remote() for seat in self._seats], timeout=_PLACE_SECONDS)
        except ray.exceptions.GetTimeoutError:
            return False
        except ray.exceptions.RayError as error:
            raise NoSeatError(f"Ray cannot start the workers: {_first_line(error)}", is_for_now=True) from None
        return True

    def _actor(self, needs: Mapping[str, float], rank: int) -> Any:
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        strategy = PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=rank)
        actor, others = self._ray.remote(Seat), dict(needs)
        return actor.options(
            num_cpus=others.pop("CPU", 0),
            num_gpus=others.pop("GPU", 0),
            memory=others.pop("memory", None),
            resources=others,
            max_restarts=0,
            max_task_retries=0,
            max_concurrency=4,  # `hear` waits while others are called
            scheduling_strategy=strategy,
        ).remote()


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


class Orders:
    """The connection to the supervisor, which sends orders to stdin and reads stdout."""

    def __init__(self) -> None:
        self._out, self._rest = os.dup(1), b""
        os.dup2(2, 1)  # Ray prints, too
        self.is_there = True

    def answer(self, message: Mapping[str, Any]) -> None:
        """Send a message."""
        data = memoryview(json.dumps(message).encode() + b"\n")
        try:
            while data:
                data = data[os.write(self._out, data) :]
        except OSError:
            self.is_there = False

    def take(self) -> list[dict[str, Any]]:
        """Return the orders that have arrived."""
        ready, _, _ = select.select([0], [], [], 0)
        if not ready:
            return []
        data = os.read(0, _CHUNK)
        self.is_there = bool(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines]


def _placed(order: Mapping[str, Any], seats: Seats) -> Mapping[str, Any]:
    if order["do"] == "begin":
        seats.begin()
        return {"is": "begun"}
    places = seats.take(order["fewest"], order["most"])
    return {"is": "taken", "places": [[place["host"], place["address"]] for place in places]}


def _obey(order: Mapping[str, Any], seats: Seats, orders: Orders) -> None:
    if order["do"] in ("take", "begin"):
        try:
            orders.answer(_placed(order, seats))
        except NoSeatError as error:
            orders.answer({"is": "unplaced", "text": str(error), "is_for_now": error.is_for_now})
        except Exception as error:
            orders.answer({"is": "unplaced", "text": f"Ray failed: {_first_line(error)}", "is_for_now": True})
    elif order["do"] == "drop":
        seats.drop(order["rank"])
    elif order["do"] == "tell":
        seats.tell(order["rank"], json.dumps(order["message"]).encode() + b"\n")


def _serve(seats: Seats, orders: Orders) -> None:
    while orders.is_there:
        for order in orders.take():
            _obey(order, seats, orders)
        for rank, lines in seats.hear(_TURN_SECONDS):
            if lines is None:
                orders.answer({"is": "lost", "rank": rank})
            for line in lines or ():
                orders.answer({"is": "said", "rank": rank, "message": json.loads(line)})


def main() -> None:
    """Connect, and serve until the supervisor leaves."""
    orders, (address, needs, strategy) = Orders(), sys.argv[1:]
    trouble = why_no_ray() or why_not_reached(address)
    if trouble:
        orders.answer({"is": "unplaced", "text": trouble, "is_for_now": False})
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    try:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # the supervisor's, while this waits for Ray
        with Seats(ray, address, WantedSeats(json.loads(needs), strategy)) as seats:
            orders.answer({"is": "ready"})
            _serve(seats, orders)
    except NoSeatError as error:
        orders.answer({"is": "unplaced", "text": str(error), "is_for_now": False})
    except Exception as error:
        orders.answer({"is": "unplaced", "text": f"Ray failed: {_first_line(error)}", "is_for_now": True})
    finally:
        ray.shutdown()


if __name__ == "__main__":
    main()
