"""What shells, launchers and debuggers print about a dead process when the log says nothing else."""

from __future__ import annotations

import io

import pytest

from oomph.explain.diagnose import diagnose
from oomph.explain.reading.log import read_log

ENDS = {
    "killed": [
        "srun: error: c002: task 0: Killed",
        "slurmstepd: error: task 3: Killed",
        "[1]    4242 killed     python train.py",
        "zsh: killed     python train.py",
        "fish: Job 1, 'python train.py' terminated by signal SIGKILL (Forced quit)",
        "/bin/bash: line 1: 12345 Killed                  python train.py",
        "Process finished with exit code 137 (interrupted by signal 9:SIGKILL)",
        "command terminated with exit code 137",
        "subprocess.CalledProcessError: Command '['python', 'train.py']' died with <Signals.SIGKILL: 9>.",
    ],
    "abort": [
        "zsh: abort      python train.py",
        "zsh: abort (core dumped)  python train.py",
        "fish: Job 1, 'python t.py' terminated by signal SIGABRT (Abort)",
        "libc++abi: terminating due to uncaught exception of type google::protobuf::FatalException: CHECK failed: x",
        "libc++abi.dylib: terminating with uncaught exception of type std::runtime_error: x",
        "*** SIGABRT (@0x3e8) received by PID 12 (TID 0x7f) from PID 12; stack trace: ***",
        "srun: error: g12: task 0: Aborted (core dumped)",
        "Process finished with exit code -1073740791 (0xC0000409)",
    ],
    "segmentation-fault": [
        "zsh: segmentation fault  python a.py",
        "srun: error: g12: task 0: Segmentation fault (core dumped)",
        "fish: Job 1, 'python t.py' terminated by signal SIGSEGV (Address boundary error)",
        "Process finished with exit code -1073741819 (0xC0000005)",
        "Unhandled exception at 0x00007FFB in python.exe: 0xC0000005: Access violation reading location 0x0.",
    ],
    "fatal-signal": [
        "Process finished with exit code 132 (interrupted by signal 4: SIGILL)",
        "srun: error: n1: task 0: Bus error (core dumped)",
        "Illegal instruction: 4",
    ],
    "host-oom": ["srun: error: n1: task 0: Out Of Memory"],
}


@pytest.mark.parametrize(("name", "line"), [(name, line) for name, lines in ENDS.items() for line in lines])
def test_line_reporting_a_process_death_is_diagnosed(name: str, line: str) -> None:
    found = diagnose(read_log(io.BytesIO(f"started\n{line}\n".encode())))
    assert found[0].name == name
