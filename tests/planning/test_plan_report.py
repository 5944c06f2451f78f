"""The report leads with what fits and with the whole command to paste."""

from __future__ import annotations

import pytest
from plans import GIB, WORDS, around, exactly, plan

from oomph.planning.plan import Device, Estimate, Fitting, Saver
from oomph.planning.report import SCRIPT, as_text, next_command, with_script
from oomph.terminal.amounts import in_three_digits


def test_report_opens_with_verdict_command_and_required_memory():
    lines = list(as_text(plan(), WORDS, 100))
    assert lines[0] == "train.py:42: ResNet50, 25.6 M parameters, Adam, float32"
    assert lines[1].startswith(
        "The largest batch that should fit is 320, on GeForce RTX 4090, where TensorFlow can use 22 GiB"
    )
    assert lines[1].replace("\n ", "").endswith("; the script's batch of 32 should fit.")
    assert "Next: oomph run train.py --epochs 3" in lines[:4]
    text = "\n".join(lines)
    assert "32     2 GiB     1.8 GiB   2.2 GiB   yes" in text
    assert "at the peak, batch 512, in Conv2DBackpropInput:" in text
    assert text.index("activations") < text.index("CUDA context") < text.index("weights")  # largest first
    assert "98 MiB" in text  # without meaningless bounds
    assert "3 more   60 MiB" in text
    assert "set_policy('x')" in text
    assert "recomputation; not planned: no layer is repeated" in text
    assert "The workspace of cuDNN is assumed." in text
    assert "graph: between 3 % below and 8 % above" in text


OPEN = (Estimate(32, around(20 * GIB), Fitting.UNKNOWN),)


@pytest.mark.parametrize(
    ("changes", "said", "command"),
    [
        ({"batch": 512}, "the script's batch of 512 does not fit", "oomph run --micro-batch 320 train.py --epochs 3"),
        ({"max_batch": 0, "micro_batch": 0}, "No batch is certain to fit on GeForce RTX 4090", ""),
        (
            {"max_batch": None},
            "The script's batch of 32 should fit on GeForce RTX 4090",
            "oomph run train.py --epochs 3",
        ),
        ({"max_batch": None}, "The largest is unknown.", "oomph run train.py --epochs 3"),
        (
            {"max_batch": None, "batch": 64, "estimates": OPEN},
            "It is unknown which batch fits on GeForce RTX 4090",
            "oomph run train.py --epochs 3",
        ),
        ({"device": None, "max_batch": None}, "--gpu 'RTX 4090'", "oomph run train.py --epochs 3"),
    ],
)
def test_command_matches_the_verdict(changes, said, command):
    made = plan(**changes)
    assert said in " ".join(" ".join(as_text(made, WORDS, 100)).split())
    assert next_command(made, WORDS) == command


XLA = "Keras compiles with XLA if it sees a GPU; to know, set jit_compile=False"


def words_of(made):
    return " ".join(" ".join(as_text(made, WORDS, 100)).split())


def test_reason_for_an_open_verdict_is_stated_once_in_the_first_sentence():
    made = plan(max_batch=None, batch=64, estimates=OPEN, why_open=XLA, notes=(f"{XLA}.", "Another."))
    lines = list(as_text(made, WORDS, 100))
    assert " ".join(lines[1].split()) == (
        f"It is unknown which batch fits on GeForce RTX 4090, where TensorFlow can use 22 GiB of 24 GiB: {XLA}."
    )
    assert words_of(made).count(XLA) == 1
    assert "note Another." in words_of(made)


@pytest.mark.parametrize(
    ("fits", "said"),
    [
        ((Fitting.YES, Fitting.YES), "A batch of 128 should fit on {on}. The largest is unknown. {XLA}."),
        ((Fitting.YES, Fitting.NO), "A batch of 64 should fit on {on}, one of 128 does not. {XLA}."),
        ((Fitting.UNKNOWN, Fitting.NO), "A batch of 128 does not fit on {on}. {XLA}."),
        ((Fitting.YES, Fitting.UNKNOWN), "A batch of 64 should fit on {on}. The largest is unknown. {XLA}."),
    ],
)
def test_verdict_follows_the_estimates_if_none_is_for_the_scripts_batch(fits, said):
    estimates = tuple(Estimate(batch, around(GIB), each) for batch, each in zip((64, 128), fits, strict=True))
    made = plan(max_batch=None, batch=25, estimates=estimates, why_open=XLA)
    on = "GeForce RTX 4090, where TensorFlow can use 22 GiB of 24 GiB"
    assert made.verdict == said.format(on=on, XLA=XLA)


def test_plan_without_a_gpu_says_that_specifying_one_is_not_enough():
    said = words_of(plan(device=None, max_batch=None, why_open=XLA))
    assert f"or --gpu 24GiB. {XLA}." in said


def test_script_batch_that_cannot_fit_is_reported():
    made = plan(max_batch=None, why_open=XLA, batch=512)
    said = (
        f"The script's batch of 512 does not fit on GeForce RTX 4090, where TensorFlow can use 22 GiB of 24 GiB. {XLA}."
    )
    assert said in words_of(made)


@pytest.mark.parametrize(
    ("device", "said"),
    [
        (Device("a GPU with 24 GiB", 24 * GIB, 24 * GIB, is_card=False), "on a GPU with 24 GiB for TensorFlow alone;"),
        (
            Device("the CPU's memory pool", 2 * GIB, 2 * GIB, is_card=False, is_gpu=False),
            "on the CPU's memory pool of 2 GiB;",
        ),
    ],
)
def test_fully_usable_memory_is_mentioned_once(device, said):
    text = words_of(plan(device=device))
    assert said in text
    assert "24 GiB of 24 GiB" not in text


def test_warning_appears_at_the_top_of_the_report():
    lines = list(as_text(plan(warnings=("Tesla T4 has no fast bfloat16.",)), WORDS, 100))
    assert "Warning: Tesla T4 has no fast bfloat16." in lines[:4]


@pytest.mark.parametrize("width", [40, 60, 80])
def test_report_lines_fit_the_width_with_commands_unbroken(width):
    words = ("train.py", "--name", "a long name with blanks", "--and", "more", "--words", "than", "fit")
    lines = "\n".join(as_text(plan(batch=512), words, width)).split("\n")
    assert any(line.endswith("train.py --name 'a long name with blanks' --and more --words than fit") for line in lines)
    assert not [line for line in lines if len(line) > width and "oomph run" not in line]


def test_plan_without_details_has_a_short_report():
    bare = plan(items=(), layers=(), savers=(), notes=(), estimates=(Estimate(32, exactly(0), Fitting.UNKNOWN),))
    text = "\n".join(as_text(bare, WORDS, 80))
    assert "32     0 B       0 B       0 B      ?" in text
    assert "to use less memory" not in text
    assert "at the peak" not in text


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (0, "0 B"), (999, "999 B"), (1000, "0.98 KiB"), (1536, "1.5 KiB"), (100 * 2**20, "100 MiB"),
        (1000 * 2**20, "0.98 GiB"), (24 * 2**30, "24 GiB"), (2**45, "32 TiB"), (2**60, "1048576 TiB"),
    ],
)  # fmt: skip
def test_sizes_have_three_digits(size, words):
    assert in_three_digits(size) == words


def test_axis_sizes_share_a_unit():
    assert in_three_digits(512 * 2**20, 2 * 2**30) == "0.5 GiB"


def test_saver_command_contains_the_script_and_its_arguments() -> None:
    savers = (
        Saver("micro-batches of 8", around(1), "changes nothing", f"oomph run --micro-batch 8 {SCRIPT}"),
        Saver("SGD instead", around(1), "another optimizer", 'optimizer="sgd",  # in model.compile()'),
    )
    made = with_script(plan(savers=savers), ("train.py", "--name", "two words"))
    assert [saver.line for saver in made.savers] == [
        "oomph run --micro-batch 8 train.py --name 'two words'",
        'optimizer="sgd",  # in model.compile()',
    ]
    assert not [line for line in as_text(made, WORDS, 100) if "..." in line or SCRIPT in line]
