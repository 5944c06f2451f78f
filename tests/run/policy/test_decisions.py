"""A run's decisions, recomputed from its journal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.cli import main
from oomph.journal.events import GpuMemoryBack, GpuMemoryHeld, RunEnded
from oomph.journal.journal import Event, Journal, read_journal
from oomph.run.policy import decisions
from oomph.run.policy.decide import Action, Ending, Finish, GiveUp, Ledger, Restart, decide, record
from oomph.run.policy.ladder import Conditions

ENDINGS = st.builds(
    Ending,
    returncode=st.sampled_from([-9, -11, -6, 1, 0, 75]),
    fault=st.sampled_from(["killed", "abort", "device-oom", "hang", "hardware-fault"]),
    started=st.booleans(),
    steps=st.integers(0, 50),
    saved=st.integers(0, 50),
    hung=st.booleans(),
    place=st.sampled_from([None, (0, 0, 1), (0, 1, 0)]),
    same_data=st.booleans(),
    preempted=st.sampled_from(["", "", "SIGTERM"]),
)
CONDITIONS = st.builds(
    Conditions,
    gpus=st.sampled_from([(), ("GPU-a",), ("GPU-a", "GPU-b")]),
    broken_gpu=st.sampled_from(["", "GPU-a"]),
    xla=st.booleans(),
    samples=st.sampled_from([None, 1, 64]),
    refused=st.sampled_from(["", "coupled"]),
    resumed_from=st.sampled_from(["", "step-1"]),
    older_checkpoints=st.integers(0, 1),
)


def written(
    endings: list[tuple[Ending, Conditions]], allowed: tuple[str, ...] = ()
) -> tuple[list[Event], list[Action]]:
    """Return the events that a supervisor writes for these endings, via JSON as on disk, and its decisions."""
    ledger, events, actions = Ledger(), [], []
    for attempt, (ending, there) in enumerate(endings, 1):
        action = decide(ending, ledger, there, allowed)
        facts = decisions.facts(ending, there, allowed)
        data = {**decisions.in_words(action), "ledger": ledger.as_data(), **facts}
        events.append(Event.from_json(Event.named("decided", data, attempt).to_json()))
        actions.append(action)
        if not isinstance(action, Restart):
            break
        ledger = record(ending, action, ledger)
    return events, actions


@given(st.lists(st.tuples(ENDINGS, CONDITIONS), min_size=1, max_size=30), st.booleans())
def test_every_decision_can_be_reproduced_from_the_journal(endings, skip) -> None:
    events, actions = written(endings, ("skip-batch",) if skip else ())
    played = decisions.replay(events)
    assert [decision.again for decision in played] == actions
    assert all(decision.reproduced for decision in played)
    assert decisions.as_text(played, "run").count("\n   ") >= len(actions)


def test_decision_that_differs_on_replay_is_reported() -> None:
    (event,), _ = written([(Ending(-9, "killed", steps=5), Conditions())])
    changed = Event.named(event.name, {**event.data, "action": "give-up", "reason": "tired"}, 1)
    (decision,) = decisions.replay([changed])
    assert not decision.reproduced
    text = decisions.as_text([decision], "run")
    assert "give up with exit code 93: tired" in text
    assert "this version of oomph would decide differently: start again, nothing changed" in text


def test_resumed_run_follows_recorded_decisions_despite_new_ladders(monkeypatch) -> None:
    """An upgraded oomph has different ladders: changes that were not made must not count as made."""
    killed = (Ending(-6, "device-oom", steps=5), Conditions(xla=True, samples=64))
    events, actions = written([killed] * 3)
    before = decisions.ledger_of(events)
    assert before.changes
    monkeypatch.setattr(decisions, "decide", lambda *given: GiveUp("this oomph would not have tried"))
    played = decisions.replay(events)
    assert [decision.action for decision in played] == actions
    assert not any(decision.reproduced for decision in played)
    assert decisions.ledger_of(events) == before


@pytest.mark.parametrize(
    "change",
    [{"ledger": {"restarts": {"killed": "many"}}}, {"ledger": {"changes": [7]}}, {"rung": 1e400}, {"rung": "x"},
     {"ending": {"returncode": {}}}, {"ending": []}, {"conditions": 5}, {"allowed": 7}, {"ledger": {"restarts": []}},
     {"ledger": None}, {"ledger": []}],
)  # fmt: skip
def test_nonsensical_decision_is_skipped(change) -> None:
    (event,), _ = written([(Ending(-9, "killed", steps=5), Conditions())])
    assert decisions.replay([Event.named(event.name, {**event.data, **change}, 1)]) in ((), decisions.replay([event]))


def test_skipped_changes_are_explained() -> None:
    events, _ = written([(Ending(-6, "device-oom", steps=5), Conditions(xla=True))] * 3)
    text = decisions.as_text(decisions.replay(events), "run")
    assert "skipped: allocator (no GPU is known)" in text
    assert "skipped: precision (alters the mathematics, and --allow-bfloat16 was not given)" in text
    assert "start again, with one change: without XLA" in text


def test_interrupted_run_keeps_its_ledger_but_one_that_gave_up_does_not() -> None:
    killed = (Ending(-9, "killed", steps=5), Conditions())
    events, _ = written([killed] * 2)
    assert decisions.ledger_of(events).restarts == {"killed": 2}
    events, actions = written([killed] * 9)
    assert isinstance(actions[-1], GiveUp)
    assert decisions.ledger_of(events) == Ledger()


def test_decision_without_its_facts_is_not_replayed() -> None:
    assert decisions.replay([Event.named("decided", {"action": "restart", "reason": "killed"}, 1)]) == ()


def test_explain_shows_the_decisions_of_a_run(tmp_path: Path, capsys) -> None:
    events, _ = written([(Ending(-9, "killed", steps=5, place=(0, 0, 5)), Conditions()), (Ending(0, ""), Conditions())])
    for event in events:
        journal = Journal(tmp_path, event.attempt, "supervisor")
        journal.write(event.fact)
        journal.close()
    assert main(["explain", str(tmp_path), "--decisions", "--exit-code"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "1. attempt 1 ended by signal 9 (killed); 5 steps done, 0 saved, at fit 1, epoch 1, step 6" in shown
    assert main(["explain", str(tmp_path), "--decisions", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [entry["action"] for entry in document["decisions"]] == ["restart", "finish"]
    assert all(entry["reproduced"] for entry in document["decisions"])
    assert main(["explain", __file__, "--decisions"]) == 3


def test_restart_with_smaller_micro_batches_is_not_described_as_unchanged() -> None:
    asked = Ending(75, "exit code 75", steps=1, saved=1, restart_requested="no room for a probe", micro_batch=8)
    events, _ = written([(asked, Conditions())])
    shown = decisions.as_text(decisions.replay(events), "RUN")
    assert "attempt 1 ended by exit code 75; 1 step done, 1 saved" in shown
    assert "start again, with micro-batches of 8 at first" in shown


def test_resumed_finished_run_starts_with_an_empty_ledger() -> None:
    events, _ = written([(Ending(1, "unrelated"), Conditions())])
    assert isinstance(decisions.replay(events)[0].again, Finish)
    assert decisions.ledger_of(events) == Ledger()


def test_partial_final_journal_line_does_not_corrupt_other_lines(tmp_path: Path) -> None:
    first = Journal(tmp_path, 1, "supervisor")
    first.write(GpuMemoryHeld())
    first.close()
    with (tmp_path / "journal" / "1-0-supervisor.jsonl").open("a") as file:
        file.write('{"schema": 1, "event": "ha')
    second = Journal(tmp_path, 1, "supervisor")
    second.write(GpuMemoryBack())
    second.close()
    assert [event.name for event in read_journal(tmp_path)] == ["gpu-memory-held", "gpu-memory-back"]


def test_clock_set_back_does_not_reorder_a_writers_events(tmp_path: Path, monkeypatch) -> None:
    journal = Journal(tmp_path, 1, "script")
    facts = (GpuMemoryHeld(), GpuMemoryBack(), RunEnded())
    for fact, now in zip(facts, (1000.0, 400.0, 401.0), strict=True):
        monkeypatch.setattr("oomph.journal.journal.time.time", lambda now=now: now)
        journal.write(fact)
    journal.close()
    assert [event.fact for event in read_journal(tmp_path)] == [*facts]
