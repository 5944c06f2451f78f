"""`oomph run --notify` reports what matters to a command or a web address, once, and never at the run's expense."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from oomph.cli import main
from oomph.errors import UsageError
from oomph.monitor.finding import Finding
from oomph.process.command import Command
from oomph.run.hang.limits import FLOOR_VARIABLE
from oomph.run.report.notification import Notification, document_of
from oomph.run.supervisor import notifying, supervise
from oomph.run.supervisor.notifying import Notifier, target_of
from oomph.run.supervisor.settings import Settings

KEEPS = """#!/bin/sh
printf '%s\\n' "$#" "$1" > message-$$
cat > document-$$
"""


@pytest.fixture
def told(work: Any) -> Any:
    """Add a command that keeps what it is given."""
    (work.folder / "tell.sh").write_text(KEEPS)
    (work.folder / "tell.sh").chmod(0o755)
    return work


def received(work: Any) -> list[tuple[str, dict[str, Any]]]:
    """Return the arguments and the documents that the command was given."""
    messages = sorted(work.folder.glob("message-*"), key=lambda path: path.stat().st_mtime_ns)
    return [
        (path.read_text(), json.loads(path.with_name(path.name.replace("message", "document")).read_text()))
        for path in messages
    ]


@pytest.fixture
def address() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A web address that records what it receives."""
    posted: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(404 if self.path == "/gone" else 200)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", posted
        server.shutdown()
        thread.join()


# -- what is sent ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "code", "occasion", "said"),
    [
        ("print('trained')", 0, "finished", "finished without a fault"),
        ("raise SystemExit(3)", 3, "failed", "ended with exit code 3"),
        ("import os; os.abort()", 93, "gave-up", "gave up"),
    ],
)
def test_end_of_a_run_is_reported_to_a_command(told: Any, script: str, code: int, occasion: str, said: str) -> None:
    told.script(script)
    assert told.run("--notify", "./tell.sh", "train.py").returncode == code
    ((arguments, document),) = received(told)
    assert arguments == f"1\n{document['text']}\n"
    assert (document["schema"], document["event"], document["exit_code"]) == (1, occasion, code)
    assert document["text"].startswith(f"train.py on {document['host']}: ")
    assert said in document["text"]
    assert document["summary"] == told.document("summary.json")
    assert document["run"] == str(told.run_dir.relative_to(told.folder))


def test_a_run_that_is_stopped_is_reported_as_stopped(told: Any) -> None:
    told.script("import time; open('began', 'w').write('x\\n'); time.sleep(50)")
    run = told.start("--notify=./tell.sh --title 'my run'", "train.py")
    told.wait_for("began")
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=60)
    ((arguments, document),) = received(told)
    assert arguments.startswith("3\n--title\n"), "the words of the command come before the message"
    assert document["event"] == "stopped"


def test_web_address_gets_one_post_and_is_kept_nowhere(work: Any, address: Any) -> None:
    url, posted = address
    work.script("import time; open('began', 'w').write('x\\n'); time.sleep(50)")
    run = work.start("--notify", f"{url}/T0P5/path", "train.py")
    work.wait_for("began")
    run.send_signal(signal.SIGINT)
    _, stderr = run.communicate(timeout=60)
    assert [each["event"] for each in posted] == ["stopped"]
    kept = [path.read_bytes() for path in work.run_dir.rglob("*") if path.is_file()]
    assert not any(b"T0P5" in each for each in [*kept, stderr])
    assert work.document("run.json")["options"] == []


def test_hang_is_reported_while_the_run_goes_on(work: Any, address: Any) -> None:
    url, posted = address
    work.script(
        "import os, time\nfrom oomph.script import session\nfrom oomph.protocol.progress import Phase\n"
        "session.current().pulse.beat(Phase.STEP, 0)\n"
        "if not os.path.exists('again'): open('again', 'w').close(); time.sleep(50)\n"
    )
    ended = work.run("--no-guard", "--notify", url, "train.py", env=work.environ(**{FLOOR_VARIABLE: "3"}))
    assert ended.returncode == 0, ended.stderr.decode()
    hang, end = posted
    assert (hang["event"], end["event"]) == ("hang", "finished")
    assert "no progress for" in hang["text"]
    assert hang["time"] < end["time"]


def test_only_critical_findings_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Notification] = []
    monkeypatch.setattr(Notifier, "send", lambda self, notification: sent.append(notification))
    supervisor = supervise.Supervisor(Command(("train.py",)), "python", None, Settings())
    for severity in ("notice", "warning", "critical"):
        supervisor._notify_of_finding(Finding("nan-loss", "weights", "12 are NaN", severity))  # type: ignore[arg-type]
    (notification,) = sent
    assert (notification.occasion, notification.details["finding"]["severity"]) == ("finding", "critical")
    assert notification.text.startswith("critical: weights: 12 are NaN (nan-loss, ")


def test_secrets_and_control_characters_are_not_sent() -> None:
    text = "no progress at \x1b[31mtrain.py\u202e, token=ghp_abcdefghijklmnopqrstuvwxyz0123456789"
    document = document_of(
        Notification("hang", text, {"line": "api_key=sk-abcdefghijklmnop123456"}), "a.py", None, "h", 1.0
    )
    assert not any(secret in json.dumps(document) for secret in ("ghp_abc", "sk-abc"))
    assert not any(character in document["text"] for character in "\x1b\u202e")


# -- what goes wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("false", "oomph: --notify: false could not be notified: ended with exit code 1"),
        ("ls /nowhere/at", "oomph: --notify: ls could not be notified: ls: cannot access"),
        ("URL/gone", "oomph: --notify: 127.0.0.1 could not be notified: it returned HTTP 404"),
    ],
)
def test_failing_notifier_is_one_line_and_changes_nothing(work: Any, address: Any, asked: str, said: str) -> None:
    work.script("raise SystemExit(3)")
    ended = work.run("--notify", asked.replace("URL", address[0]), "train.py", env=work.environ(LC_ALL="C"))
    assert ended.returncode == 3
    *_, last = ended.stderr.decode().splitlines()
    assert last.startswith(said)
    assert work.document("run.json")["status"] == "failed"


@pytest.mark.parametrize(
    "asked",
    [
        "no-such-command", "ftp://host/x", "https://", "'", "file:///etc/passwd",
        "http://host:99999/", "http://host:0/", "https://me:secret@host/",
    ],
)  # fmt: skip
def test_target_that_could_never_work_is_rejected_before_the_run(work: Any, asked: str) -> None:
    work.script("print('trained')")
    ended = work.run("--notify", asked, "train.py")
    assert (ended.returncode, ended.stdout) == (2, b"")
    (line,) = ended.stderr.decode().splitlines()
    assert line.startswith("oomph: --notify")
    assert not (work.folder / ".oomph").exists()


def test_slow_notifier_is_ended_and_never_waited_for_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alive: Any, wait_until: Any
) -> None:
    monkeypatch.setattr(notifying, "_MOST_SECONDS", 0.5)
    (tmp_path / "slow").write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nsleep 60\n")
    (tmp_path / "slow").chmod(0o755)
    said: list[str] = []
    notifier = Notifier(target_of(str(tmp_path / "slow")), said.append, "a.py", None)
    began = time.monotonic()
    for _ in range(2):
        notifier.send(Notification("hang", "no progress"))
        notifier.attend()
    assert time.monotonic() - began < 0.4
    pid = int(wait_until(lambda: (tmp_path / "pid").read_text() if (tmp_path / "pid").exists() else ""))
    notifier.close()
    assert not alive(pid)
    assert said == [f"--notify: {tmp_path}/slow could not be notified: no answer within 0 s"]


def test_nothing_is_sent_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifying, "Child", None)
    said: list[str] = []
    Notifier(None, said.append, "a.py", None).send(Notification("hang", "no progress"))
    assert said == []


def test_option_needs_a_value(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--notify=", "train.py"]) == 2
    assert "--notify= has no value" in capsys.readouterr().err
    with pytest.raises(UsageError, match="there is no command"):
        target_of(" ")


def test_critical_findings_of_the_scripts_own_process_are_sent_once_while_it_runs(told: Any) -> None:
    told.script(
        "import glob, time\n"
        "from oomph.journal.events import FindingMade\n"
        "from oomph.script import session\n"
        "for severity in ('warning', 'critical'):\n"
        "    made = FindingMade(fault='nan-loss', subject=severity, message='it is', severity=severity)\n"
        "    session.current().journal.write(made)\n"
        "until = time.monotonic() + 20\n"
        "while not glob.glob('message-*') and time.monotonic() < until: time.sleep(0.1)\n"
        "raise SystemExit(not glob.glob('message-*'))\n"
    )
    assert told.run("--notify", "./tell.sh", "train.py").returncode == 0, "sent while the script was running"
    documents = [document for _, document in received(told)]
    assert [each["event"] for each in documents] == ["finding", "finished"]
    assert documents[0]["finding"]["subject"] == "critical"
    assert "critical: critical: it is (nan-loss, " in documents[0]["text"]
