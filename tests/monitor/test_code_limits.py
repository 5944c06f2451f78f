"""Code that keeps a container short is told from code that only adds to it."""

from __future__ import annotations

import pytest

from oomph.monitor.code_limits import limits_in

LIMITED = [
    ("list", "history", "if len(history) > 100:\n    history.pop(0)"),
    ("deque", "Replay.memory", "class Replay:\n    def push(self):\n        self.memory.popleft()"),
    ("list", "Replay.memory", "def push(self, item):\n    self.memory[self.position] = item"),
    ("list", "buffer", "if len(buffer) < capacity:\n    buffer.append(item)"),
    ("list", "episodes", "episodes = episodes[-100:]"),
    ("list", "rows (in main)", "def main():\n    del rows[:10]"),
    ("list", "pool", "if loaded < SHARDS and step % 40 == 0:\n    pool.extend(read(loaded))\n    loaded += 1"),
    ("dict", "Images.cache", "if index not in self.cache:\n    self.cache[index] = load(index)"),
    ("dict", "cache", "cache.setdefault(index, load(index))"),
    ("dict", "Vocabulary.words", "self.words[word] = self.words.get(word, 0) + 1"),
]
UNLIMITED = [
    ("list", "losses", "losses.append(loss)\nprint(len(losses), losses[-10:])"),
    ("list", "losses", "if len(losses) % 100 == 0 or len(losses) > 10:\n    print(losses[-10:])"),
    ("list", "Recorder.outputs", "self.outputs.append(y)\nnp.concatenate(self.outputs)"),
    ("dict", "memo", "memo[step] = gradient"),
    ("list", "bad", "if loss < best:\n    bad.append(x)\nseen += 1"),
    ("list", "bad", "while step < steps:\n    bad.append(x)\n    step += 1"),
    ("list", "outputs", "other.pop()\nlen(other) < 3"),
]


@pytest.mark.parametrize(("kind", "name", "code"), LIMITED)
def test_limited_container_is_recognised(kind, name, code):
    assert limits_in(code).limits(kind, name)


@pytest.mark.parametrize(("kind", "name", "code"), UNLIMITED)
def test_container_that_only_grows_is_not_limited(kind, name, code):
    assert not limits_in(code).limits(kind, name)


@pytest.mark.parametrize("code", ["def (", "\0", "(" * 5000, "x" * (3 << 20)])
def test_code_that_cannot_be_parsed_limits_nothing(code):
    assert limits_in(code) == limits_in("")
