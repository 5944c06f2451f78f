"""What a manifest may contain."""

from __future__ import annotations

import pytest

from oomph.checkpoint.manifest import meta_trouble, missing_tensor, position_trouble, tensors_trouble

POSITION = {"fit": 0, "epoch": 3, "step": 2, "steps": 47}
META = {
    "key": "a-0",
    "outline": "train.py fit",
    "cell": "1f2e3d4c",
    "callbacks": [{"class": "EarlyStopping", "state": {"best": float("inf"), "wait": 0, "kept": None}}],
    "history": {"epoch": [0, 1], "history": [{"list": ["loss", {"list": [1.0, 0.5]}]}]},
    "optimizers": [[0, 1], []],
    "random": {},
    "taken": 47,
    "told": {"class": "grain.Iterator", "bytes": False, "state": {"next_index": 4}},
    "iterators_made": 4,
    "iterators_used": [1, 2, 3, 4],
    "validated_after": [[1, 1], [2, 0]],
    "logs": {"loss": 0.5},
    "learning_rate": None,
    "made_by": {"code": {"train.py": "abc"}},
    "hidden": [{"code": "draws-in-kernels", "function": "step"}],
    "taken_at": 1.5,
    "something of a later oomph": object(),
}


def test_valid_position_and_metadata_are_accepted():
    assert position_trouble(POSITION) is None
    assert meta_trouble(META, 47) is None
    assert meta_trouble({}, 0) is None


@pytest.mark.parametrize("value", [-1, 1.5, "x", True, None, 2**53, float("inf"), [3]])
@pytest.mark.parametrize("name", POSITION)
def test_position_with_an_invalid_count_is_rejected(name, value):
    assert position_trouble({**POSITION, name: value}).startswith(f"its position has {name}=")


@pytest.mark.parametrize("position", [None, [], "x", 3])
def test_position_that_is_not_an_object_is_rejected(position):
    assert position_trouble(position) == "its position is not an object"


@pytest.mark.parametrize("name", [name for name in META if not name.startswith("something")])
def test_metadata_field_of_the_wrong_type_is_rejected_by_name(name):
    assert meta_trouble({**META, name: object()}, 47).startswith(f"its {name} is invalid: ")


def test_manifest_problem_is_described_in_at_most_200_characters():
    assert len(meta_trouble({"callbacks": "x" * 10**6}, 0)) == 200
    assert len(position_trouble({"fit": "x" * 10**6})) == 200


@pytest.mark.parametrize(("steps", "taken", "right"), [(0, 1000, True), (0, 1001, False), (100, 2000, True)])
def test_number_of_batches_must_roughly_match_the_steps(steps, taken, right):
    assert (meta_trouble({"taken": taken}, steps) is None) == right


ENTRY = {"name": "model/0", "dtype": "float32", "shape": [2, 3], "offset": 8, "nbytes": 24}


def test_tensors_must_fit_within_their_file():
    assert tensors_trouble([ENTRY, {**ENTRY, "name": "model/1", "shape": [], "nbytes": 4}], 32) is None
    assert tensors_trouble([ENTRY, ENTRY], 32) == "two tensors share a name"
    assert "size does not match its bytes" in tensors_trouble([{**ENTRY, "shape": [1 << 40, 3]}], 32)
    assert tensors_trouble([], 0) is None
    assert "is outside its file" in tensors_trouble([ENTRY], 31)


@pytest.mark.parametrize(
    "change",
    [
        {"offset": -1},
        {"nbytes": 10**12},
        {"nbytes": 23},
        {"nbytes": 25},
        {"nbytes": 2**70},
        {"nbytes": None},
        {"shape": [-1]},
        {"shape": 3},
        {"shape": ["x"]},
        {"dtype": None},
        {"name": ["x"]},
        {"more": 1},
    ],
)
def test_impossible_tensor_is_rejected(change):
    assert tensors_trouble([ENTRY, {**ENTRY, **change}], 32).startswith(("a tensor is ", "a tensor's size "))
    assert tensors_trouble({"a": ENTRY}, 32) == tensors_trouble([5], 32) == "its tensors are not a table"


def test_manifest_claiming_an_impossible_amount_of_memory_is_rejected():
    """A tensor file may be sparse, so a huge size costs its author nothing."""
    size = 9 << 30
    for under in ("object/", "data/", "file/", "own/"):
        entry = {**ENTRY, "name": f"{under}0", "dtype": "uint8", "shape": [size], "offset": 0, "nbytes": size}
        assert "bytes of the script's objects" in tensors_trouble([entry], size)
    for name in ("callback/0/0", "layer/0", "history/0", "draws/0", "validation/0"):
        entry = {**ENTRY, "name": name, "dtype": "uint8", "shape": [size], "offset": 0, "nbytes": size}
        assert (
            tensors_trouble([ENTRY, entry], size)
            == f"it claims {size} bytes of callbacks and layers for 24 bytes of variables"
        )
        weights = {**entry, "name": "model/1", "shape": [1 << 30], "nbytes": 1 << 30}
        assert tensors_trouble([weights, entry], size) is None
    unknown = {**ENTRY, "dtype": "float8_e4m3fn", "nbytes": 1 << 40}
    assert "size does not match its bytes" in tensors_trouble([unknown], 1 << 41)


@pytest.mark.parametrize(
    ("meta", "missing"),
    [
        ({"opened": [{"copied": False}, {"copied": True}]}, "file/1"),
        ({"files": [{}, {"copy": 3}]}, "file/3"),
        ({"objects": {"arrays": ["a"], "apart": 1}}, "object/1"),
        ({"moment": {"objects": {"arrays": ["a", "b"]}}}, "data/1"),
        ({"moment": {"objects": None}, "objects": None, "opened": [], "files": []}, None),
    ],
)
def test_tensor_referenced_in_the_metadata_must_exist(meta, missing):
    """Otherwise, the fit would notice only when it starts, and would run unguarded."""
    assert missing_tensor(meta, {"object/0", "data/0", "file/0"}) == missing
    assert missing_tensor(meta, {"object/0", "data/0", "file/0", missing}) is None


@pytest.mark.parametrize(("seed", "right"), [(None, True), (-7, True), (2**63 - 1, True), (2**63, False), (1.5, False)])
def test_seed_must_be_none_or_valid_for_tensorflow(seed, right):
    assert (meta_trouble({"random": {"tensorflow_seed": seed}}, 0) is None) == right
