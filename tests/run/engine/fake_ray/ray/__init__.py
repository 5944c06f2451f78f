"""The few names of Ray that oomph uses, on threads of this process: nodes by FAKE_RAY, a JSON object.

`{"cpus": [1, 1], "gpus": [0, 0]}`. A node is lost when a file `lost-<number>` appears in the working directory; its
CPUs count no more, and its seats die. `room` in that folder adds a node with two CPUs.
"""

import concurrent.futures
import contextlib
import json
import os
import threading
import time
from types import SimpleNamespace

from ray import exceptions, util  # noqa: F401

NOTICED_AFTER_SECONDS = 1.0
_POOL = concurrent.futures.ThreadPoolExecutor(64)
_NODE = threading.local()
_ACTORS = []


def init(address=None, **options):
    if address == "auto":
        raise ConnectionError("no cluster here")
    threading.Thread(target=_watch, daemon=True).start()


def shutdown():
    _POOL.shutdown(wait=False, cancel_futures=True)
    with open("left-ray", "w"):
        pass
    os._exit(0)  # threads wait for agents


def nodes():
    known = json.loads(os.environ.get("FAKE_RAY", '{"cpus": [1, 1]}'))
    gpus = known.get("gpus", [0] * len(known["cpus"]))
    found = [
        {"Alive": not os.path.exists(f"lost-{number}"), "Resources": {"CPU": cpus, "GPU": gpu}}
        for number, (cpus, gpu) in enumerate(zip(known["cpus"], gpus, strict=True))
    ]
    return [*found, *([{"Alive": True, "Resources": {"CPU": 2}}] if os.path.exists("room") else [])]


def available_resources():
    alive = {number: node["Resources"] for number, node in enumerate(nodes()) if node["Alive"]}
    free = {name: sum(node.get(name, 0) for node in alive.values()) for name in ("CPU", "GPU")}
    free["CPU"] -= sum(not actor.is_dead and actor.node in alive for actor in _ACTORS)
    return free


def _watch():
    while True:
        for number, node in enumerate(nodes()):
            for actor in _ACTORS if not node["Alive"] else ():
                if actor.node == number:
                    kill(actor)
        time.sleep(0.02)


def get_runtime_context():
    return SimpleNamespace(get_node_id=lambda: f"node-{_NODE.number}")


def remote(kind):
    return SimpleNamespace(options=lambda **options: SimpleNamespace(remote=lambda: Actor(kind(), options)))


class Actor:
    def __init__(self, seat, options):
        self.seat, self.is_dead = seat, False
        index = options["scheduling_strategy"].placement_group_bundle_index
        alive = [number for number, node in enumerate(nodes()) if node["Alive"]]
        places = [number for number in alive for _ in range(int(nodes()[number]["Resources"]["CPU"]))]
        self.node = places[index]
        _ACTORS.append(self)

    def __getattr__(self, name):
        return SimpleNamespace(remote=lambda *args: _POOL.submit(self._call, name, args))

    def _call(self, name, args):
        _NODE.number = self.node
        if not self.is_dead:
            result = getattr(self.seat, name)(*args)
        if self.is_dead:
            time.sleep(NOTICED_AFTER_SECONDS)
            raise exceptions.RayError("the actor died")
        return result


def get(wanted, timeout=None):
    try:
        if isinstance(wanted, list):
            return [each.result(timeout) for each in wanted]
        return wanted.result(timeout)
    except concurrent.futures.TimeoutError:
        raise exceptions.GetTimeoutError("too late") from None


def wait(refs, num_returns=1, timeout=None):
    done, rest = concurrent.futures.wait(refs, timeout, return_when=concurrent.futures.FIRST_COMPLETED)
    return list(done)[:num_returns], list(rest)


def kill(actor):
    if actor.is_dead:
        return
    actor.is_dead = True
    with contextlib.suppress(AttributeError, OSError):
        actor.seat._agent.stdin.close()
