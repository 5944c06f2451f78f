"""One attempt: what the script sees and what is seen of it, compared with running it without oomph."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pty
import resource
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from oomph.files.opening import OwnFile
from oomph.process.available_memory import oom_kills
from oomph.process.stderr import Tail

LIMIT = 60


def without_oomph(stderr: bytes) -> bytes:
    return b"".join(line for line in stderr.splitlines(True) if not line.startswith(b"oomph: "))


@pytest.mark.parametrize(
    "text",
    [
        "print('hello')",
        "import sys; print(sys.argv, __name__, __file__, sys.path[0], sys.flags)",
        "import sys; sys.exit(3)",
        "import sys; sys.exit('with words')",
        "raise ValueError('the script\\'s own')",
        "def f(n):\n    return f(n - 1) if n else 1 / 0\nf(5)",
        "class Odd(Exception):\n    pass\ntry:\n    1 / 0\nexcept Exception as e:\n    raise Odd('later') from e",
        "import os; os._exit(7)",
        "import sys; sys.stderr.write('no newline at the end')",
        "this is no Python",
        "import sys; print(repr(sys.stdin.read()))",
        "import os, sys; print([os.isatty(fd) for fd in (0, 1, 2)], os.environ.get('PYTHONPATH', '')[:0])",
        "import atexit; atexit.register(print, 'at exit'); raise SystemExit(4)",
        "import threading; t = threading.Thread(target=lambda: 1 / 0); t.start(); t.join()",
        "import os; os.fork() or os._exit(5); os.wait(); print('parent')",
        "import signal; print(signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTTOU),"
        " signal.getsignal(signal.SIGPIPE), signal.pthread_sigmask(signal.SIG_BLOCK, []))",
    ],
)
def test_script_behaves_as_under_plain_python(work, text):
    script = work.script(text)
    words = [script, "--epochs", "3", "", "a b", "--", "-m"]
    plain, ours = work.plain(*words, input=b"in\xff\n"), work.run(*words, input=b"in\xff\n")
    assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout)
    if text.endswith("at the end')"):
        assert without_oomph(ours.stderr) == plain.stderr + b"\n"  # ours: oomph starts its message on a new line
    else:
        assert without_oomph(ours.stderr) == plain.stderr


def test_module_and_command_behave_as_under_plain_python(work):
    work.script("import sys; print(sys.argv[1:], __name__, __package__); sys.exit(5)", "train.py")
    plain = work.plain("-m", "train", "-x")
    assert (work.run("-m", "train", "-x").stdout, plain.returncode) == (plain.stdout, 5)
    ours = work.run("--", "env", "A=1", sys.executable, "-m", "train", "-x")
    assert (ours.stdout, ours.returncode) == (plain.stdout, 5)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGUSR1, signal.SIGPIPE, signal.SIGQUIT])
def test_non_crash_signal_leads_to_the_shells_exit_code(work, signum):
    work.script(f"import os, signal; signal.signal({signum:d}, 0); os.kill(os.getpid(), {signum:d})")
    assert work.run("train.py").returncode == 128 + signum


def test_large_stdout_is_identical_and_not_slowed_down(work):
    megabytes = 200
    work.script(
        f"import sys, hashlib\nblock = bytes(range(256)) * 4096\n"
        f"for i in range({megabytes}): sys.stdout.buffer.write(block[i:] + block[:i])\n"
    )
    digests = []
    for argv in (work.oomph("train.py"), [sys.executable, "train.py"]):
        process = subprocess.Popen(
            argv, cwd=work.folder, env=work.environ(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        digest, size = hashlib.sha256(), 0
        with process.stdout:
            while block := process.stdout.read(1 << 20):
                digest.update(block)
                size += len(block)
        assert process.wait(LIMIT) == 0
        assert size == megabytes << 20
        digests.append(digest.hexdigest())
    assert digests[0] == digests[1]


def test_stderr_is_forwarded_immediately_and_its_end_is_kept(work):
    work.script(
        "import sys, time\nsys.stderr.write('first')\nsys.stderr.flush()\nsys.stdin.read(1)\n"
        "for i in range(300000): sys.stderr.write('%07d\\n' % i)\n"
    )
    process = work.start("train.py", stdin=subprocess.PIPE)
    seen = b""
    while not seen.endswith(b"first"):
        assert select.select([process.stderr], [], [], 30)[0]
        seen += os.read(process.stderr.fileno(), 4096)
    process.stdin.write(b"x")
    process.stdin.close()
    process.stdin = None
    rest = process.communicate(timeout=LIMIT)[1]
    whole = b"".join(b"%07d\n" % i for i in range(300000))
    assert whole in rest
    log = (work.run_dir / "stderr" / "1.log").read_bytes()
    assert len(log) == 1 << 20
    assert whole.endswith(log)


def test_closing_the_stderr_reader_does_not_stop_the_script(work):
    work.script("import sys\nfor i in range(100000): sys.stderr.write('words\\n')\nprint('end')")
    process = work.start("train.py")
    process.stderr.close()
    process.stderr = None
    assert process.communicate(timeout=LIMIT)[0] == b"end\n"
    assert process.returncode == 0


def test_script_exit_is_detected_even_if_a_child_keeps_stderr_open(work):
    work.script(
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(50)'], stdout=subprocess.DEVNULL)\n"
        "open('child', 'w').write('%d\\n' % child.pid)\nprint('end', file=sys.stderr)"
    )
    start = time.monotonic()
    with open(work.folder / "errors", "wb") as errors:
        process = work.start("train.py", stderr=errors)
        assert process.wait(LIMIT) == 0
    assert time.monotonic() - start < 5
    (child,) = work.wait_for("child")
    os.kill(int(child), 0)  # after a normal exit, the other processes continue, as in plain Python
    os.kill(int(child), signal.SIGKILL)
    assert b"end\n" in (work.folder / "errors").read_bytes()


def test_child_stderr_is_forwarded_after_the_script_exits(work):
    work.script(
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', "
        "'import sys, time; time.sleep(1); print(\"late\", file=sys.stderr)'], stdout=subprocess.DEVNULL)\n"
    )
    result = work.run("train.py")
    assert result.returncode == 0
    assert result.stderr.endswith(b"late\n")


def test_script_exit_is_detected_within_two_seconds(work):
    work.script("import time; open('ended', 'w').write('%r\\n' % time.time())")
    process = work.start("train.py")
    process.communicate(timeout=LIMIT)
    (ended,) = work.wait_for("ended")
    assert time.time() - float(ended) < 2  # everything else: Python's exit, the decision, the summary, our exit


class OnTerminal:
    """A process with its own controlling terminal."""

    def __init__(self, argv, folder, environ):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                os.chdir(folder)
                os.execvpe(argv[0], argv, environ)
            finally:
                os._exit(99)
        self.seen = b""

    def read_until(self, text, seconds=30):
        until = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < until, f"{text!r} not in {self.seen!r}"
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.fd, 4096)
                except OSError:
                    assert text in self.seen, f"{text!r} not in {self.seen!r}"
        return self.seen

    def type(self, text):
        os.write(self.fd, text)

    def wait(self, seconds=30):
        until = time.monotonic() + seconds
        while True:
            with contextlib.suppress(OSError):
                if select.select([self.fd], [], [], 0.02)[0]:
                    self.seen += os.read(self.fd, 4096)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = None
                return os.waitstatus_to_exitcode(status)
            assert time.monotonic() < until, f"still running; seen {self.seen!r}"

    def close(self):
        if self.pid is not None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


@pytest.fixture
def terminal(work):
    opened = []

    def open_terminal(argv):
        opened.append(OnTerminal(argv, work.folder, work.environ()))
        return opened[-1]

    yield open_terminal
    for one in opened:
        one.close()


def test_script_on_a_terminal_receives_typed_answers(work, terminal):
    work.script(
        "import os, sys\n"
        "print([os.isatty(fd) for fd in (0, 1, 2)], os.get_terminal_size(2) == os.get_terminal_size(0))\n"
        "print('asked', input('name? '))\nprint('again', input('name? '))\nsys.stderr.write('one\\ntwo\\n')"
    )
    session = terminal(work.oomph("train.py"))
    session.read_until(b"name? ")
    assert b"[True, True, True] True" in session.seen
    session.type(b"anna\n")
    session.read_until(b"asked anna")
    session.type(b"bert\n")
    assert session.wait() == 0
    assert b"again bert" in session.seen
    assert b"one\r\ntwo\r\n" in session.seen


def test_ctrl_c_on_a_terminal_interrupts_the_script_once(work, terminal):
    work.script(
        "import time\ntry:\n    print('ready', flush=True); time.sleep(50)\n"
        "except KeyboardInterrupt:\n    print('interrupted'); time.sleep(0.5); print('done')"
    )
    session = terminal(work.oomph("train.py"))
    session.read_until(b"ready")
    session.type(b"\x03")
    assert session.wait() == 0
    assert session.seen.count(b"interrupted") == 1
    assert b"done" in session.seen


def test_ctrl_c_interrupts_a_script_reading_from_the_terminal(work, terminal):
    work.script("try:\n    input('name? ')\nexcept KeyboardInterrupt:\n    print('interrupted'); raise SystemExit(6)")
    session = terminal(work.oomph("train.py"))
    session.read_until(b"name? ")
    time.sleep(0.2)
    session.type(b"\x03")
    assert session.wait() == 6
    assert b"interrupted" in session.seen


_SHELL = """
import os, signal, sys, time
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
pid = os.fork()
if pid == 0:
    os.setpgid(0, 0)
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    time.sleep(0.2)
    os.execv(sys.argv[1], sys.argv[1:])
os.setpgid(pid, pid)
os.tcsetpgrp(0, pid)
while True:
    _, status = os.waitpid(pid, os.WUNTRACED)
    os.tcsetpgrp(0, os.getpgrp())
    if not os.WIFSTOPPED(status):
        sys.exit(os.waitstatus_to_exitcode(status))
    sys.stdout.write("[stopped]\\n"); sys.stdout.flush()
    sys.stdin.readline()
    os.tcsetpgrp(0, pid)
    os.killpg(pid, signal.SIGCONT)
"""


@pytest.mark.parametrize("reading", [False, True])
def test_ctrl_z_stops_the_job_and_fg_resumes_it(work, terminal, reading):
    wait = "input('more? ')" if reading else "\nwhile not os.path.exists('go'): time.sleep(0.05)"
    work.script(f"import os, time\nprint('ready', flush=True)\n{wait}\nprint('done')")
    session = terminal([sys.executable, "-c", _SHELL, *work.oomph("train.py")])
    session.read_until(b"more? " if reading else b"ready")
    time.sleep(0.3)
    session.type(b"\x1a")
    session.read_until(b"[stopped]")
    (work.folder / "go").write_text("")
    time.sleep(0.3)
    assert b"done" not in session.seen
    session.type(b"fg\n")
    if reading:
        time.sleep(0.5)
        session.type(b"answer\n")
    assert session.wait() == 0
    assert b"done" in session.seen


def test_tail_keeps_the_end_of_the_output_in_memory_and_on_disk(tmp_path: Path) -> None:
    tail = Tail(OwnFile(tmp_path, "log"), kept_bytes=100)
    for number in range(1000):
        tail.feed(b"%04d" % number)
        assert (tmp_path / "log").stat().st_size <= 204
    expected = b"".join(b"%04d" % number for number in range(975, 1000))
    assert tail.data == expected
    tail.close()
    assert (tmp_path / "log").read_bytes() == expected


def test_tail_that_cannot_be_written_to_disk_is_kept_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    tail = Tail(OwnFile(tmp_path, "file/log"))
    tail.feed(b"words")
    tail.close()
    assert tail.data == b"words"


@pytest.mark.parametrize(
    ("membership", "counter", "content"),
    [
        ("0::/job\n", "job/memory.events", "low 0\noom 2\noom_kill 2\n"),
        ("0::/job\n", "memory.events", "oom_kill 2\n"),
        ("9:cpu:/\n4:memory:/job\n", "memory/job/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"),
        ("4:memory:/job\n", "memory/memory.oom_control", "oom_kill 2\n"),
    ],
)
def test_oom_kill_counter_is_found_in_both_cgroup_versions(tmp_path: Path, membership, counter, content) -> None:
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "self" / "cgroup").write_text(membership)
    path = tmp_path / "sys" / "fs" / "cgroup" / counter
    path.parent.mkdir(parents=True)
    path.write_text(content)
    assert oom_kills(tmp_path) == 2


def test_missing_oom_kill_counter_returns_none(tmp_path: Path) -> None:
    assert oom_kills(tmp_path) is None


def test_resource_limits_match_plain_python(work):
    """Including core dumps: users who want one after a crash set the limit themselves."""
    work.script(
        "import resource as r\nprint({n: r.getrlimit(getattr(r, n)) for n in dir(r) if n.startswith('RLIMIT_')})"
    )
    limits = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_CORE, (4096, 8192))}
    plain, ours = work.plain("train.py", **limits), work.run("train.py", **limits)
    assert "'RLIMIT_CORE': (4096, 8192)" in plain.stdout.decode()
    assert ours.stdout == plain.stdout
