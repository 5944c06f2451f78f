"""Mistakes put in by hand, one at a time: do the nearest tests of `make test` notice?

    python benchmarks/mutations.py [NUMBER ...]

Each replaces a few words of the source in place, runs the tests named beside it, and puts the source back. A mistake
that they do not notice survives. Needs a checkout whose `src` has no changes. Ends with 1 if one survived, or if its
tests fail without it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src/oomph"
SECONDS = 300


class Mutation(NamedTuple):
    """One mistake."""

    what: str
    file: str
    right: str
    wrong: str
    tests: str


MUTATIONS = (
    Mutation(
        "best weights of EarlyStopping sorted as words",
        "tensorflow/fit/callbacks.py",
        "n.isdigit()), key=int)",
        "n.isdigit()), key=str)",
        "tensorflow/fit/test_callbacks.py",
    ),
    Mutation(
        "the cooldown of ReduceLROnPlateau forgotten",
        "tensorflow/fit/callbacks.py",
        '("wait", "best", "cooldown_counter")',
        '("wait", "best")',
        "tensorflow/fit/test_callbacks.py",
    ),
    Mutation(
        "the script outlives a supervisor that dies at once",
        "recovery/posix/spawn.py",
        "_LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)",
        "pass",
        "recovery/posix/test_outlived.py",
    ),
    Mutation(
        "an optimizer's slots need not be finite",
        "tensorflow/state/training_state.py",
        "[*model.trainable_variables, *_optimizer_variables(model)]}",
        "[*model.trainable_variables]}",
        "tensorflow/state/test_training_state.py",
    ),
    Mutation(
        "the tripwire belongs to nobody",
        "recovery/posix/tripwire.py",
        "F_SETOWN, -group",
        "F_SETOWN, 0",
        "recovery/posix/test_outlived.py",
    ),
    Mutation(
        "the watchdog only watches",
        "recovery/posix/watchdog.py",
        "os.killpg(group, signal.SIGKILL)",
        "pass",
        "recovery/posix/test_outlived.py",
    ),
    Mutation(
        "files of a run through links",
        "run_files.py",
        "flags & ~os.O_TRUNC | os.O_NOFOLLOW",
        "flags & ~os.O_TRUNC",
        "recovery/run_directory/test_planted.py",
    ),
    Mutation(
        "files of a run for everybody",
        "run_files.py",
        "FOLDER_MODE, FILE_MODE = 0o700, 0o600",
        "FOLDER_MODE, FILE_MODE = 0o755, 0o644",
        "recovery/run_directory/test_planted.py",
    ),
    Mutation(
        "runs that others may write to are trusted",
        "recovery/run_directory/trust.py",
        "stat.S_IWGRP | stat.S_IWOTH",
        "0",
        "recovery/run_directory/test_planted.py",
    ),
    Mutation(
        "a descriptor is ours whoever has it",
        "own_descriptor.py",
        "return self._identity is not None and _identity(self.fd) == self._identity",
        "return True",
        "recovery/script/test_closed_descriptors.py",
    ),
    Mutation(
        "the word after --api-key is kept",
        "redaction.py",
        "else MARK\n    return found",
        "else found[number + 1]\n    return found",
        "test_redaction.py",
    ),
    Mutation(
        "escape sequences reach the terminal",
        "shown.py",
        "return text.translate(_STEERING)",
        "return text",
        "test_redaction.py",
    ),
    Mutation(
        "a checkpoint may set any attribute of a callback",
        "recovery/checkpoint/manifest.py",
        '"callbacks": _list_of(_is_callback),',
        '"callbacks": lambda value: True,',
        "recovery/checkpoint/test_manifest.py",
    ),
    Mutation(
        "tensors beyond the end of their file",
        "recovery/checkpoint/manifest.py",
        'or entry["offset"] + entry["nbytes"] > file_bytes',
        "",
        "recovery/checkpoint/test_manifest.py",
    ),
    Mutation(
        "a moving variance without the spread of the parts",
        "tensorflow/micro_batch/moving_statistics.py",
        "(1 - momentum) * spread",
        "0 * spread",
        "tensorflow/micro_batch/test_moving_statistics.py",
    ),
    Mutation(
        "assignments do not wait for the commit",
        "tensorflow/commit/held_assignments.py",
        "        operation._add_control_input(counted.op)\n    return result",
        "        pass\n    return result",
        "tensorflow/commit/test_held_assignments.py",
    ),
    Mutation(
        "a failed step is not rolled back",
        "tensorflow/commit/staging.py",
        "                slot.assign(value)\n",
        "                pass\n",
        "tensorflow/commit/test_staging.py",
    ),
    Mutation(
        "whatever the probe measures is exact",
        "tensorflow/exact_step/verdict.py",
        "if not finding.gradients <= finding.tolerance:",
        "if False:",
        "tensorflow/exact_step/test_verdict.py",
    ),
    Mutation(
        "a probe that could not tell is exact",
        "tensorflow/exact_step/verdict.py",
        "if not finding.conclusive and promise.kind == TO_BE_PROBED:",
        "if False:",
        "tensorflow/exact_step/test_verdict.py",
    ),
    Mutation(
        "what has failed may be tried again",
        "recovery/policy/micro_batch_search.py",
        "min(int(aim), int(below * self.failed))",
        "int(aim)",
        "recovery/policy/test_micro_batch_search.py",
    ),
    Mutation(
        "the label of a run is its best",
        "recovery/report/labels.py",
        "label = max((each.label for each in known)",
        "label = min((each.label for each in known)",
        "recovery/report/test_labels.py",
    ),
    Mutation(
        "verified without a comparison",
        "recovery/report/labels.py",
        "    if not compared:\n        return Labelled(UNVERIFIED)\n    return Labelled(REPLAYED",
        "    return Labelled(REPLAYED",
        "recovery/report/test_labels.py",
    ),
    Mutation(
        "another batch is the same batch",
        "recovery/checkpoint/comparison.py",
        "if then.batch and now.batch and then.batch != now.batch:",
        "if False:",
        "recovery/checkpoint/test_comparison.py",
    ),
    Mutation(
        "noise explains any difference",
        "recovery/checkpoint/comparison.py",
        "and abs(now.loss - then.loss) <= allowed",
        "",
        "recovery/checkpoint/test_comparison.py",
    ),
    Mutation(
        "checksums are not compared",
        "recovery/checkpoint/container.py",
        "if _digest(folder / name) != digest:",
        "if False:",
        "recovery/checkpoint/test_store.py",
    ),
    Mutation(
        "the checkpoint before one is itself",
        "recovery/checkpoint/store.py",
        "_number(path.name) < _number(newer.name)]",
        "_number(path.name) <= _number(newer.name)]",
        "recovery/checkpoint/test_store.py",
    ),
    Mutation(
        "a killed writer's half line takes the next one with it",
        "journal.py",
        '        os.write(fd, b"\\n")\n',
        "        pass\n",
        "test_journal.py",
    ),
    Mutation(
        "the journal follows a clock that is set back",
        "journal.py",
        "latest = max(latest, event.time)",
        "latest = event.time",
        "test_journal.py",
    ),
    Mutation(
        "what fails before any training is tried for ever",
        "recovery/policy/policy.py",
        "if not ending.started and ledger.never_started >= MOST_NEVER_STARTED:",
        "if False:",
        "recovery/policy/test_policy.py",
    ),
    Mutation(
        "no step is a poison step",
        "recovery/policy/policy.py",
        "    if not again or ending.fault",
        "    if True or ending.fault",
        "recovery/policy/test_policy.py",
    ),
    Mutation(
        "a resume goes on from decisions computed anew",
        "recovery/policy/decisions.py",
        "action = _action_in(event.data) or again",
        "action = again",
        "recovery/policy/test_decisions.py",
    ),
    Mutation(
        "a signal before a second start ends a training that is over",
        "recovery/policy/examination.py",
        "(started or trail.went_further) and",
        "started and",
        "recovery/policy/test_examination.py",
    ),
    Mutation(
        "a phase may last as long as usual, and no longer",
        "recovery/hang/limits.py",
        "return max(floor, FACTOR * usual)",
        "return usual",
        "recovery/hang/test_limits.py",
    ),
    Mutation(
        "true is the number one",
        "conforming.py",
        "isinstance(value, int) and not isinstance(value, bool)",
        "isinstance(value, int)",
        "test_conforming.py",
    ),
    Mutation(
        "a journal names any folder as a checkpoint",
        "recovery/supervisor/effects.py",
        "if Path(name).name != name:",
        "if False:",
        "recovery/supervisor/test_effects.py",
    ),
    Mutation(
        "FIFOs are waited for",
        "regular_file.py",
        "os.O_RDONLY | os.O_NONBLOCK",
        "os.O_RDONLY",
        "doctor/test_no_files.py --timeout 5",
    ),
    Mutation(
        "live exceptions lose their chain",
        "faults/evidence/live_exception.py",
        "        if before is not None:\n",
        "        if False:\n",
        "faults/evidence/test_live_exception.py",
    ),
)


def tried(mutation: Mutation) -> tuple[str, float]:
    """ "caught", or what it is instead, and the seconds that the tests took."""
    path = SOURCE / mutation.file
    whole = path.read_text()
    if whole.count(mutation.right) != 1:
        return f"not to be put in: found {whole.count(mutation.right)} times", 0.0
    began = time.monotonic()
    path.write_text(whole.replace(mutation.right, mutation.wrong))
    try:
        code = _tests(mutation.tests)
    finally:
        path.write_text(whole)
    return {0: "survived", 1: "caught"}.get(code, f"pytest ended with {code}"), time.monotonic() - began


def _tests(words: str) -> int:
    file, *options = words.split()
    argv = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not slow and not gpu", "-p", "no:cacheprovider"]
    try:
        return subprocess.run(
            [*argv, str(ROOT / "tests" / file), *options], cwd=ROOT, capture_output=True, timeout=SECONDS
        ).returncode
    except subprocess.TimeoutExpired:
        return 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("numbers", type=int, nargs="*", help="of the mistakes to try, from 1; all without one")
    args = parser.parse_args()
    if subprocess.run(["git", "diff", "--quiet", "--", str(SOURCE)], cwd=ROOT).returncode:
        print("src has changes: commit them first, since the files are overwritten")
        return 2
    chosen = [(n, each) for n, each in enumerate(MUTATIONS, 1) if not args.numbers or n in args.numbers]
    wrong = [file for file in sorted({each.tests for _, each in chosen}) if _tests(file) != 0]
    for file in wrong:
        print(f"fails without a mistake: {file}")
    survived = 0
    for number, mutation in chosen:
        outcome, seconds = tried(mutation)
        survived += outcome != "caught"
        print(f"{number:2} {outcome:<9} {seconds:5.1f} s  {mutation.what} ({mutation.tests.split()[0]})", flush=True)
    print(f"{len(chosen) - survived} of {len(chosen)} caught")
    return bool(survived or wrong)


if __name__ == "__main__":
    sys.exit(main())
