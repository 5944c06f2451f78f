"""`oomph.Monitor`: its findings are reported once and passed on, and the fit is not disturbed."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import keras
import pytest
import tensorflow as tf

import oomph
from oomph.journal.events import Decided
from oomph.journal.journal import Journal
from oomph.monitor.finding import Finding, FindingChanges
from oomph.monitor.live import callback
from oomph.monitor.live.callback import Attendant
from oomph.monitor.live.findings import Alerts
from oomph.monitor.live.scalars import Scalars, figures, restart_in_words
from oomph.monitor.sample import GpuSample, Sample
from oomph.script import session

FOUND = Finding(
    "nan-loss", "weights", "12 weights are NaN, api_key=abcdef123456", "critical", {"not_finite_weights": 12}
)

LATER = 2e10
"""A Unix time after that of any test."""


class Sampler:
    """Stands in for the process alongside training."""

    problem = ""

    def __init__(self, folder, script_pid):
        self.left, self.is_closed = [FOUND], False

    def changes(self):
        found, self.left = self.left, []
        return FindingChanges(tuple(found))

    def close(self):
        self.is_closed = True


@pytest.fixture(autouse=True)
def sampler(monkeypatch):
    monkeypatch.setattr(callback, "SamplerProcess", Sampler)


@pytest.fixture
def said(monkeypatch):
    said = []
    monkeypatch.setattr(callback, "say", said.append)
    return said


@pytest.fixture
def server():
    """A web address that records what it receives."""
    received = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(404 if self.path == "/gone" else 200)
            self.end_headers()

        def log_message(self, *args):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}", received
        listening.shutdown()
        thread.join()


def test_monitor_reports_findings_in_a_fit_and_removes_itself(small_model, numbers, said, tmp_path):
    alerted, model = [], small_model()
    monitor = oomph.Monitor(tmp_path / "kept", alert=alerted.append)
    model.fit(*numbers, batch_size=8, verbose=0, callbacks=[monitor])
    assert [line.partition(":")[0] for line in said] == ["critical"]
    assert alerted == [FOUND]
    assert (tmp_path / "kept" / "training").exists()
    assert type(model.train_function).__name__ == "function"
    model.fit(*numbers, batch_size=8, verbose=0)


def test_monitoring_of_a_failed_fit_ends_at_the_next_fit(small_model, numbers, said, tmp_path):
    class Stops(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            raise KeyError("of the user's own")

    model = small_model()
    with pytest.raises(KeyError):
        model.fit(*numbers, verbose=0, callbacks=[oomph.Monitor(tmp_path / "1"), Stops()])
    left = callback._left_running
    model.fit(*numbers, verbose=0, callbacks=[oomph.Monitor(tmp_path / "2")])
    assert left._attendant._findings.is_closed
    assert callback._left_running is None
    assert type(model.train_function).__name__ == "function"


def test_an_uncreatable_monitor_folder_is_reported_and_training_continues(small_model, numbers, said, tmp_path):
    (tmp_path / "file").write_text("")
    small_model().fit(*numbers, verbose=0, callbacks=[oomph.Monitor(tmp_path / "file" / "in it")])
    assert said == [
        f"Monitor: NotADirectoryError: [Errno 20] Not a directory: '{tmp_path}/file/in it'; "
        "training is not being watched"
    ]


def test_monitor_within_a_guarded_run_does_not_watch_separately(small_model, numbers, said, tmp_path, monkeypatch):
    class Joined:
        run_dir = tmp_path
        say = staticmethod(said.append)

    monkeypatch.setattr(session, "current", lambda: Joined)
    small_model().fit(*numbers, verbose=0, callbacks=[oomph.Monitor()])
    assert said == []
    assert not (tmp_path / "training").exists()


def test_samples_are_kept_in_a_folder_that_git_ignores(small_model, numbers, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small_model().fit(*numbers, verbose=0, callbacks=[oomph.Monitor()])
    assert len(list((tmp_path / ".oomph/monitor").iterdir())) == 1
    assert (tmp_path / ".oomph/.gitignore").read_text() == "*\n"


def test_samples_of_an_earlier_attempt_are_not_written_for_tensorboard(said, tmp_path, monkeypatch):
    written = []

    class Kept:
        write, close = written.append, staticmethod(lambda: None)

    monkeypatch.setattr("oomph.monitor.live.callback.newest", lambda folder: Sample(1.0))
    attendant = Attendant(tmp_path, Sampler(None, None), Alerts(said.append, False, None, None), Kept, said.append)
    attendant.begin()
    attendant.end()
    assert written == []


@pytest.mark.parametrize("address", ["file:///etc/passwd", "hooks.example/x", "ftp://example.org/x", "https://"])
def test_invalid_webhook_address_is_rejected_immediately(address):
    with pytest.raises(ValueError, match="https://"):
        oomph.Monitor(webhook=address)


def test_an_alert_must_be_callable():
    with pytest.raises(TypeError, match="callable"):
        oomph.Monitor(alert="mail")


def test_the_webhook_receives_the_finding_without_secrets(server, said):
    url, received = server
    Alerts(said.append, False, None, url).take(FindingChanges((FOUND,)))
    (document,) = received
    assert (document["fault"], document["severity"], document["figures"]) == (
        "nan-loss",
        "critical",
        {"not_finite_weights": 12},
    )
    assert "abcdef123456" not in json.dumps(document)
    assert said == []


def test_a_failing_alert_is_reported_once_without_the_webhook_address(server, said):
    url, _ = server

    def broken(finding):
        raise RuntimeError("no mail")

    alerts = Alerts(said.append, False, broken, f"{url}/gone")
    for _ in range(2):
        alerts.take(FindingChanges((FOUND,)))
    assert said == [
        "alert raised RuntimeError: no mail; training continues",
        "the webhook at 127.0.0.1 failed: it returned HTTP 404",
    ]


@pytest.mark.filterwarnings("ignore:__array__ implementation")  # in Keras' own callback
def test_monitor_metrics_are_written_to_the_users_tensorboard_folder(small_model, numbers, said, tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(callback, "Scalars", lambda folder: written.append(folder))
    board = keras.callbacks.TensorBoard(tmp_path / "logs")
    small_model().fit(*numbers, verbose=0, callbacks=[oomph.Monitor(tmp_path / "kept"), board])
    assert written == [str(tmp_path / "logs")]


def sample(steps, waited=0.0):
    training = {
        "steps_total": steps, "step_seconds_total": steps * 0.1, "examples_total": steps * 32.0,
        "input_wait_seconds_total": waited, "allocator_in_use_bytes": 5.0,
    }  # fmt: skip
    gpus = (
        GpuSample(0, "a", values={"temperature_celsius": 50.0}),
        GpuSample(1, "b", values={"temperature_celsius": 70.0}),
    )
    host, process = {"memory_used_bytes": 9.0, "memory_total_bytes": 64.0}, {"resident_bytes": 3.0}
    return Sample(LATER, gpus=gpus, host=host, process=process, training=training)


def test_tensorboard_metrics_cover_the_time_since_the_last_sample():
    found = dict(figures(sample(30.0, 1.5), sample(10.0, 0.5).training))
    assert found == pytest.approx({
        "training/step_seconds": 0.1, "training/input_wait_ratio": 0.5, "training/examples_per_second": 320,
        "training/allocator_in_use_bytes": 5, "gpu/temperature_celsius": 70,
        "host/memory_used_bytes": 9, "host/script_bytes": 3,
    })  # fmt: skip


def test_monitor_metrics_are_written_to_a_tensorboard_event_file(tmp_path):
    scalars = Scalars(tmp_path)
    scalars.write(sample(10.0))
    scalars.write(sample(20.0, 0.5))
    scalars.close()
    (file,) = (tmp_path / "oomph").iterdir()
    events = list(tf.compat.v1.train.summary_iterator(str(file)))
    assert {value.tag for event in events for value in event.summary.value} >= {"training/step_seconds"}
    assert {event.step for event in events} == {0, 10, 20}


def written_by(scalars, folder):
    """Return the (step, tag, value) of each metric and text that is written for two samples."""
    scalars.write(sample(10.0))
    scalars.write(sample(20.0))
    scalars.close()
    (file,) = (folder / "oomph").iterdir()
    events = tf.compat.v1.train.summary_iterator(str(file))
    return [(event.step, value.tag, tf.make_ndarray(value.tensor)) for event in events for value in event.summary.value]


def test_a_restart_is_marked_in_tensorboard_at_its_first_step(tmp_path):
    journal = Journal(tmp_path / "run", 1, "supervisor")
    journal.write(Decided(action="restart", reason="host-oom \x1b[31m"))
    journal.close()
    scalars = Scalars(tmp_path)
    scalars.mark_attempt(tmp_path / "run", 2)
    written = written_by(scalars, tmp_path)
    assert [(step, value) for step, tag, value in written if tag == "run/attempt"] == [(10, 2), (20, 2)]
    ((step, text),) = [(step, value) for step, tag, value in written if tag == "run/restart"]
    assert (step, text.item()) == (10, b"attempt 2; the one before it: host-oom \\x1b[31m")


def test_a_first_attempt_is_numbered_and_has_no_mark(tmp_path):
    scalars = Scalars(tmp_path)
    scalars.mark_attempt(tmp_path / "run", 1)
    tags = [tag for _, tag, _ in written_by(scalars, tmp_path)]
    assert tags.count("run/attempt") == 2
    assert "run/restart" not in tags


def test_an_attempt_that_nobody_saw_end_is_marked_as_killed(tmp_path):
    assert restart_in_words(tmp_path, 3) == "attempt 3; the one before it: killed together with oomph"


def test_full_disk_stops_tensorboard_metrics_but_not_alerts(said, tmp_path, monkeypatch):
    class Full:
        def write(self, sample):
            raise OSError("no space")

        def close(self):
            pass

    monkeypatch.setattr("oomph.monitor.live.callback.newest", lambda folder: sample(1.0))
    attendant = Attendant(tmp_path, Sampler(None, None), Alerts(said.append, True, None, None), Full(), said.append)
    attendant.begin()
    attendant.end()
    assert [line.partition(":")[0] for line in said] == ["critical", "metrics are no longer written for TensorBoard"]
