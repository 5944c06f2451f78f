"""Mutation tests with hand-written mutations, one at a time: do the nearest tests of `make test` fail?

    python benchmarks/mutations.py [NUMBER ...]

Each replaces a few words of the source in place, runs its tests, and restores the source. A mutation survives if they
pass. Needs a checkout without changes in `src`. Exits with 1 if a mutation survives, or if its tests fail without it.
"""

from __future__ import annotations

import argparse
import os
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
        "resume/fit/callbacks.py",
        "n.isdigit()), key=int)",
        "n.isdigit()), key=str)",
        "tensorflow/fit/test_callbacks.py",
    ),
    Mutation(
        "the cooldown of ReduceLROnPlateau forgotten",
        "resume/fit/callbacks.py",
        '("wait", "best", "cooldown_counter")',
        '("wait", "best")',
        "tensorflow/fit/test_callbacks.py",
    ),
    Mutation(
        "the script outlives a supervisor that dies at once",
        "process/spawn.py",
        "_LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)",
        "pass",
        "run/posix/test_outlived.py",
    ),
    Mutation(
        "an optimizer's slots need not be finite",
        "resume/state/training_state.py",
        "[*model.trainable_variables, *optimizer_variables_of(model)]",
        "[*model.trainable_variables]",
        "tensorflow/state/test_training_state.py",
    ),
    Mutation(
        "the tripwire belongs to nobody",
        "process/spawn.py",
        "F_SETOWN, -group",
        "F_SETOWN, 0",
        "run/posix/test_outlived.py",
    ),
    Mutation(
        "the watchdog only watches",
        "process/spawn.py",
        "os.killpg(group, signal.SIGKILL)",
        "pass",
        "run/posix/test_outlived.py",
    ),
    Mutation(
        "files of a run through links",
        "files/opening.py",
        "flags & ~os.O_TRUNC | os.O_NOFOLLOW",
        "flags & ~os.O_TRUNC",
        "run/directory/test_planted.py",
    ),
    Mutation(
        "files of a run for everybody",
        "files/opening.py",
        "FOLDER_MODE, FILE_MODE = 0o700, 0o600",
        "FOLDER_MODE, FILE_MODE = 0o755, 0o644",
        "run/directory/test_planted.py",
    ),
    Mutation(
        "runs that others can write to are trusted",
        "files/oomph_folder.py",
        "stat.S_IWGRP | stat.S_IWOTH",
        "0",
        "run/directory/test_planted.py",
    ),
    Mutation(
        "prune removes runs that can be resumed",
        "run/directory/pruning.py",
        '"resumable" if run.is_resumable else None',
        "None",
        "run/directory/test_pruning.py",
    ),
    Mutation(
        "prune removes what is not oomph's",
        "run/directory/pruning.py",
        "OWN_NAMES.fullmatch",
        "str",
        "run/directory/test_pruning.py",
    ),
    Mutation(
        "prune takes no lock",
        "run/directory/pruning.py",
        "lock_run(path).fd",
        "os.dup(folder)",
        "run/directory/test_pruning.py",
    ),
    Mutation(
        "holder on another host is not waited for",
        "run/directory/lease.py",
        "if newest_holder(run_dir) != holder:",
        "if False:",
        "run/directory/test_lease.py",
    ),
    Mutation(
        "copy goes on after a newer claim",
        "run/store/copying.py",
        "check_newest(self._objects, self._claim)\n        self._sequence += 1",
        "self._sequence += 1",
        "run/store/test_copying.py",
    ),
    Mutation(
        "older manifest is taken for the newest",
        "run/store/claims.py",
        "max(whole, key=lambda manifest: manifest.sequence)",
        "whole[0]",
        "run/store/test_copying.py",
    ),
    Mutation(
        "runs are found through links",
        "run/directory/search.py",
        "entry.is_dir(follow_symlinks=False)",
        "entry.is_dir()",
        "run/directory/test_search.py",
    ),
    Mutation(
        "every finding is notified",
        "run/supervisor/supervise.py",
        'finding.severity == "critical"',
        "True",
        "run/supervisor/test_notifying.py",
    ),
    Mutation(
        "the web address of --notify is stored",
        "cli/run.py",
        "_without_addresses(args)",
        "args.typed",
        "run/supervisor/test_notifying.py",
    ),
    Mutation(
        "a descriptor is ours whoever has it",
        "files/own_descriptor.py",
        "return self._identity is not None and _identity(self.fd) == self._identity",
        "return True",
        "run/script/test_closed_descriptors.py",
    ),
    Mutation(
        "the word after --api-key is kept",
        "redaction/redaction.py",
        "given[number][:start] + MARK",
        "given[number]",
        "test_redaction.py",
    ),
    Mutation(
        "escape sequences reach the terminal",
        "terminal/message.py",
        "return text.translate(_STEERING)",
        "return text",
        "test_redaction.py",
    ),
    Mutation(
        "a checkpoint may set any attribute of a callback",
        "checkpoint/manifest.py",
        '"callbacks": _list_of(_is_callback),',
        '"callbacks": lambda value: True,',
        "run/checkpoint/test_manifest.py",
    ),
    Mutation(
        "tensors beyond the end of their file",
        "checkpoint/manifest.py",
        'or entry["offset"] + entry["nbytes"] > file_bytes',
        "",
        "run/checkpoint/test_manifest.py",
    ),
    Mutation(
        "a moving variance without the spread of the parts",
        "exact_step/micro_batch/sums.py",
        "(1 - momentum) * spread",
        "0 * spread",
        "tensorflow/micro_batch/test_moving_statistics.py",
    ),
    Mutation(
        "assignments do not wait for the commit",
        "exact_step/commit.py",
        "        TENSORFLOW.add_control_input.call(operation, counted.op)\n    return result",
        "        pass\n    return result",
        "tensorflow/commit/test_held_assignments.py",
    ),
    Mutation(
        "a failed step is not rolled back",
        "exact_step/commit.py",
        "                slot.assign(value)\n",
        "                pass\n",
        "tensorflow/commit/test_staging.py",
    ),
    Mutation(
        "whatever the probe measures is exact",
        "exact_step/step/division.py",
        "if not finding.has_equal_gradients:",
        "if False:",
        "tensorflow/exact_step/test_verdict.py",
    ),
    Mutation(
        "a probe that could not tell is exact",
        "exact_step/step/division.py",
        "if not finding.conclusive and promise.kind == TO_BE_PROBED:",
        "if False:",
        "tensorflow/exact_step/test_verdict.py",
    ),
    Mutation(
        "what has failed may be tried again",
        "protocol/micro_batch_sizes.py",
        "min(int(aim), int(below * self.failed))",
        "int(aim)",
        "run/policy/test_micro_batch_sizes.py",
    ),
    Mutation(
        "the label of a run is its best",
        "run/report/labels.py",
        "label = max((each.label for each in known)",
        "label = min((each.label for each in known)",
        "run/report/test_labels.py",
    ),
    Mutation(
        "verified without a comparison",
        "protocol/coverage.py",
        "self.is_any and self.covered >=",
        "self.covered >=",
        "run/report/test_labels.py",
    ),
    Mutation(
        "a comparison of the first steps verifies a long repeat",
        "protocol/coverage.py",
        "self.covered >= _ENOUGH * self.repeated",
        "self.covered >= 0",
        "run/report/test_labels.py",
    ),
    Mutation(
        "another batch is the same batch",
        "checkpoint/witness.py",
        "if then.batch and now.batch and then.batch != now.batch:",
        "if False:",
        "run/checkpoint/test_comparison.py",
    ),
    Mutation(
        "noise explains any difference",
        "checkpoint/witness.py",
        "and abs(now.loss - then.loss) <= allowed",
        "",
        "run/checkpoint/test_comparison.py",
    ),
    Mutation(
        "checksums are not compared",
        "checkpoint/container.py",
        "if _digest(folder / name) != digest:",
        "if False:",
        "run/checkpoint/test_store.py",
    ),
    Mutation(
        "the checkpoint before one is itself",
        "checkpoint/store.py",
        "_number(path.name) < _number(newer.name)]",
        "_number(path.name) <= _number(newer.name)]",
        "run/checkpoint/test_store.py",
    ),
    Mutation(
        "a killed writer's half line takes the next one with it",
        "journal/journal.py",
        '        os.write(fd, b"\\n")\n',
        "        pass\n",
        "test_journal.py",
    ),
    Mutation(
        "the journal follows a clock that is set back",
        "journal/journal_reader.py",
        "return event.attempt, event.time, event.role",
        "return event.time, event.attempt, event.role",
        "test_journal.py",
    ),
    Mutation(
        "what fails before any training is tried for ever",
        "run/policy/decide.py",
        "if not ending.started and ledger.never_started >= MOST_NEVER_STARTED:",
        "if False:",
        "run/policy/test_decide.py",
    ),
    Mutation(
        "no step is a poison step",
        "run/policy/decide.py",
        "    if not again or ending.fault",
        "    if True or ending.fault",
        "run/policy/test_decide.py",
    ),
    Mutation(
        "a resume goes on from decisions computed anew",
        "run/policy/decisions.py",
        "action = _action_in(decided) or again",
        "action = again",
        "run/policy/test_decisions.py",
    ),
    Mutation(
        "a signal before a second start ends a training that is over",
        "run/policy/examination.py",
        "(started or trail.went_further) and",
        "started and",
        "run/policy/test_examination.py",
    ),
    Mutation(
        "a phase may last as long as usual, and no longer",
        "run/hang/limits.py",
        "return max(floor, FACTOR * usual)",
        "return usual",
        "run/hang/test_limits.py",
    ),
    Mutation(
        "true is the number one",
        "files/conforming.py",
        "isinstance(value, int) and not isinstance(value, bool)",
        "isinstance(value, int)",
        "test_conforming.py",
    ),
    Mutation(
        "a journal names any folder as a checkpoint",
        "run/supervisor/effects.py",
        "if Path(name).name != name:",
        "if False:",
        "run/supervisor/test_effects.py",
    ),
    Mutation(
        "FIFOs are waited for",
        "files/opening.py",
        "os.O_RDONLY | os.O_NONBLOCK",
        "os.O_RDONLY",
        "doctor/test_no_files.py --timeout 5",
    ),
    Mutation(
        "live exceptions lose their chain",
        "explain/evidence/evidence.py",
        "        if before is not None:\n",
        "        if False:\n",
        "explain/evidence/test_live_exception.py",
    ),
    Mutation(
        "gradients of micro-batches are not weighted by their share",
        "exact_step/micro_batch/interception.py",
        "weight = None if self._summed or id(optimizer) in self._scaled else self._frame.share",
        "weight = None",
        "tensorflow/micro_batch/test_gradient_capture.py",
    ),
    Mutation(
        "sums are averaged over the micro-batches",
        "exact_step/micro_batch/sums.py",
        "_summed(column) if is_sum else _merged(column, sizes, batched)",
        "_merged(column, sizes, batched)",
        "tensorflow/micro_batch/test_merged_metrics.py",
    ),
    Mutation(
        "progress does not refill the budgets",
        "run/policy/decide.py",
        "if ending.steps > ledger.best_steps:",
        "if False:",
        "run/policy",
    ),
    Mutation(
        "standing still refills the budgets",
        "run/policy/decide.py",
        "if ending.steps > ledger.best_steps:",
        "if ending.steps >= ledger.best_steps:",
        "run/policy",
    ),
    Mutation(
        "a resumed process draws other numbers from NumPy",
        "resume/state/training_state.py",
        'np.random.set_state(state_like({**saved, "state": {"key": key, "pos": saved["state"]["pos"]}}, now))',
        "del key",
        "tensorflow/state",
    ),
    Mutation(
        "the optimizer's count of steps is not kept",
        "keras_bridge/models.py",
        "for variable in keras.variables_of(optimizer)]",
        "for variable in keras.variables_of(optimizer)[1:]]",
        "tensorflow/state",
    ),
    Mutation(
        "a log's prefix takes the first letter of the line with it",
        "explain/reading/original_lines.py",
        "text = text[found.end() :]",
        "text = text[found.end() + 1 :]",
        "explain/reading",
    ),
    Mutation(
        "a resumed epoch takes the data of the epoch before",
        "resume/training/data_position.py",
        "range(self.iterators_made + 1, self.iterators_made + count + 1)",
        "range(self.iterators_made + 1, self.iterators_made + count)",
        "tensorflow/training",
    ),
    Mutation(
        "a checkpoint comes one step late",
        "checkpoint/interval.py",
        "return steps >= self.steps",
        "return steps > self.steps",
        "run/checkpoint",
    ),
    Mutation(
        "checkpoints may take any share of the time",
        "checkpoint/interval.py",
        "cost.stall_seconds / SHARE",
        "cost.stall_seconds",
        "run/checkpoint",
    ),
    Mutation(
        "random numbers of a micro-batch are those of the first samples",
        "keras_bridge/random_ops.py",
        "count, lead = first // group, tf.cast(first % group, tf.int32)",
        "count, lead = 0 * first, tf.cast(0 * first, tf.int32)",
        "tensorflow/random_numbers",
    ),
    Mutation(
        "a smaller replica runs out of samples before the others",
        "keras_bridge/batch/replicas.py",
        "[(size * start // most, size * (start + part) // most) for size in sizes]",
        "[(min(size, start), min(size, start + part)) for size in sizes]",
        "tensorflow/batch",
    ),
    Mutation(
        "whatever comes later is a consequence",
        "explain/matching/causality.py",
        "return before.position <= after.position or cause.looks_back",
        "return True",
        "explain",
    ),
    Mutation(
        "a driver of the same major version is too old",
        "doctor/checks/driver.py",
        "if has[0] < wants[0]:",
        "if has < tuple(wants):",
        "doctor/test_checks.py",
    ),
    Mutation(
        "a progress board of another format is believed",
        "protocol/progress.py",
        "if magic != _MAGIC:\n        return None",
        "if False:\n        return None",
        "run/protocol/test_progress.py",
    ),
    Mutation(
        "a stopped machine counts as a hang",
        "run/hang/watch.py",
        "if gap > _PAUSE_SECONDS:",
        "if False:",
        "run/hang",
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
            [*argv, str(ROOT / "tests" / file), *options],
            cwd=ROOT,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},  # a mistake of the same length would stay in the cache
            capture_output=True,
            timeout=SECONDS,
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
