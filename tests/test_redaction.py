"""Keys and passwords never appear in anything stored or shown; text that only looks like one stays."""

from __future__ import annotations

import json
import string
import subprocess
import sys
import time
from pathlib import Path

import pytest

from oomph.files.opening import OwnFile
from oomph.process.stderr import Tail
from oomph.redaction import redaction
from oomph.redaction.redaction import know_secrets, redacted, redacted_data, redacted_words
from oomph.run.directory.run_directory import RunRecord
from oomph.terminal.message import shown, shown_line

KEY = "Zq8vN3kLmP0xR7tW"  # no form of its own: only the preceding name reveals it
LETTERS = (string.ascii_letters + string.digits) * 2
NAMED = [
    f"--api-key {KEY}",
    f"--api-key={KEY}",
    f"-token {KEY}",
    f"WANDB_API_KEY={KEY}",
    f"export HF_TOKEN={KEY};",
    f"aws_secret_access_key = {KEY}",
    f'{{"api_key": "{KEY}", "lr": 1}}',
    f"{{'password': '{KEY}'}}",
    f'\\"token\\": \\"{KEY}\\"',
    f"Authorization: Bearer {KEY}",
    f"authorization: basic {KEY}",
    f"https://user:{KEY}@host.example/path",
    f"mysql+pymysql://root:{KEY}@db:3306/trials",
    f"https://host.example/x?token={KEY}&b=1",
    f"https://bucket.example/x?X-Amz-Signature={KEY}",
    f"-----BEGIN RSA PRIVATE KEY-----\n{KEY}\n{KEY}\n-----END RSA PRIVATE KEY-----",
    f"my.Secret: {KEY}",
    f"passphrase={KEY}",
    f"--auth {KEY}",
    f"--wandb-key {KEY}",
    f"--pwd={KEY}",
    f"--db-pass {KEY}",
    f"Cookie: session={KEY}; theme=dark",
    f"{'THE_DATABASE_OF_ALL_RUNS_OF_THE_WHOLE_TEAM_' * 3}PASSWORD={KEY}",
    f"--{'the-database-of-all-runs-of-the-whole-team-' * 3}password {KEY}",
    f"--{'the-database-of-all-runs-of-the-whole-team-' * 3}key={KEY}",
]
FORMS = [
    f"ghp_{LETTERS[:36]}",
    f"github_pat_{LETTERS[:60]}",
    f"glpat-{LETTERS[:20]}",
    f"AKIA{string.ascii_uppercase[:16]}",
    f"AIza{LETTERS[:35]}",
    f"hf_{LETTERS[:34]}",
    f"sk-{LETTERS[:48]}",
    f"xoxb-{LETTERS[:40]}",
    f"npm_{LETTERS[:36]}",
    f"eyJ{LETTERS[:20]}.{LETTERS[:40]}.{LETTERS[:30]}",
]
HARMLESS = [
    "eos_token=</s> pad_token: [PAD]",
    "--max-tokens 512 --tokenizer bert --oov-token <UNK>",
    "KeyError: 'loss'",
    "token=None, password: str",
    "token: 5",
    "GOOGLE_APPLICATION_CREDENTIALS=/home/me/key.json",
    "http://127.0.0.1:6006/",
    "unexpected token: )",
    "dense/kernel and attention/key/kernel",
    "sk-learn, asia-east1, signature: (int) -> float",
    "Epoch 1/5 12/12 - 0s 3ms/step - loss: 0.5",
]


@pytest.mark.parametrize("text", NAMED)
def test_key_is_recognised_by_the_name_before_it(text):
    assert KEY not in redacted(text)
    assert "***" in redacted(f"so {text} it is")
    assert redacted(redacted(text)) == redacted(text)


@pytest.mark.parametrize("key", FORMS)
def test_key_is_recognised_by_its_form(key):
    assert redacted(f"refused: {key}.") in ("refused: ***.", "refused: ***")


@pytest.mark.parametrize("text", HARMLESS)
def test_text_without_a_secret_is_not_redacted(text):
    assert redacted(text) == text


def test_word_after_a_secret_option_is_redacted():
    words = ["train.py", "--token", KEY, "--lr", "0.1", "--oov-token", "<UNK>", f"--password={KEY}", "--secret"]
    assert redacted_words(words) == [
        "train.py", "--token", "***", "--lr", "0.1", "--oov-token", "<UNK>", "--password=***", "--secret"
    ]  # fmt: skip


def test_secret_passed_to_a_script_is_redacted_everywhere(monkeypatch):
    monkeypatch.setattr(redaction, "_known", set())
    environ = {"MY_TOKEN": "abcdefgh12", "PAD_TOKEN": "something", "PASSWORD": "short", "PATH": "/usr/bin"}
    know_secrets(["train.py", "--api-key", KEY, "--hub-token=ijklmnop34"], environ)
    text = f"refused {KEY}, abcdefgh12 and ijklmnop34, not something short in /usr/bin"
    assert redacted(text) == "refused ***, *** and ***, not something short in /usr/bin"


def test_nested_data_is_redacted_at_every_level():
    data = {"key": "place-0", "api_key": KEY, "n": [1, {"argv": ["--token", KEY], "s": f"TOKEN={KEY}"}], "t": (KEY,)}
    found = redacted_data(data)
    assert found["key"] == "place-0"
    assert json.dumps({**found, "t": []}).count("***") == 3
    assert redacted_data(None) is None


def test_long_variable_name_marks_a_secret_but_a_long_sentence_does_not():
    long = "OF_ALL_RUNS_OF_THE_WHOLE_TEAM_" * 3
    assert redacted_data({f"{long}PASSWORD": KEY}) == {f"{long}PASSWORD": "***"}
    said = f"{'the words of the whole team ' * 3}, and then the token"
    assert redacted_data({said: "train.py"}) == {said: "train.py"}
    assert redacted_words([f"--{long}TOKEN", KEY]) == [f"--{long}TOKEN", "***"]


@pytest.mark.parametrize(
    "piece",
    ["a", "_", "--", "token", "token=", "a.b-", " -a", "x://", "http://a", "eyJ", "eyJaaaaaaaaaaaa.", "bearer ",
     "-----BEGIN PRIVATE KEY-----", "secret_", "sk-", "key =:", " token   =   ", "\\", '"', "?sig=", "A" * 19 + " ",
     "--auth", "access_key_", f"{'a' * 70}_password: b "],
)  # fmt: skip
def test_megabyte_of_any_text_is_redacted_quickly(piece):
    text = f"key {piece * (2**20 // len(piece))}"
    started = time.process_time()
    redacted(text)
    assert time.process_time() - started < 3


def test_command_line_with_many_options_is_redacted_quickly():
    started = time.process_time()
    assert len(redacted_words(["t.py", *["-p", "x9"] * 10_000])) == 20_001
    assert time.process_time() - started < 10


def test_terminal_control_characters_are_escaped():
    assert shown("a\x1b]0;title\x07\x9b31m\rb\tc\nd") == "a\\x1b]0;title\\x07\\x9b31m\\x0db\tc\nd"
    assert shown("safe\u202egnp.exe\u2066") == "safe\\u202egnp.exe\\u2066"
    assert shown_line("a.py\noomph: finished") == "a.py\\x0aoomph: finished"


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_log_contains_no_key_even_if_it_is_split_across_output_chunks(tmp_path, size):
    text = "\n".join([*NAMED, *FORMS, "the end"]).encode()
    tail = Tail(OwnFile(tmp_path, "log"))
    for start in range(0, len(text), size):
        tail.feed(text[start : start + size])
    tail.close()
    kept = (tmp_path / "log").read_text()
    assert KEY not in kept
    assert not any(key in kept for key in FORMS)
    assert kept.endswith("the end")
    assert tail.data == text


def test_shortened_log_contains_no_key(tmp_path):
    tail = Tail(OwnFile(tmp_path, "log"), kept_bytes=1000)
    for number in range(500):
        tail.feed(f"{number} TOKEN={KEY}\n".encode())
    tail.close()
    kept = (tmp_path / "log").read_text()
    assert KEY not in kept
    assert 500 < len(kept) <= 1000
    assert kept.endswith("499 TOKEN=***\n")


def test_log_shortened_inside_a_private_key_contains_no_part_of_it(tmp_path):
    key = [b"-----BEGIN PRIVATE KEY-----", *(b"MIIEvQIBADANBgkq%04d" % number for number in range(200))]
    tail = Tail(OwnFile(tmp_path, "log"), kept_bytes=1000)
    tail.feed(b"a line of the script\n" * 96)
    for line in key:
        tail.feed(line + b"\n")
    tail.feed(b"-----END PRIVATE KEY-----\nthe end\n")
    tail.close()
    kept = (tmp_path / "log").read_bytes()
    assert b"MIIE" not in kept
    assert kept.endswith(b"the end\n")


def test_run_record_keeps_its_command_without_the_key():
    record = RunRecord(("train.py", "--token", KEY), "python", "/x", "", options=("--run-dir", "a"))
    assert KEY not in record.to_json()
    assert RunRecord.from_json(record.to_json()).command == ("train.py", "--token", "***")


SCRIPT = f"""
import sys
print("argv", sys.argv[2], file=sys.stderr)
print("https://me:{KEY}@host.example/", file=sys.stderr)
raise RuntimeError("401 for API_KEY={KEY} and " + sys.argv[2])
"""


def test_no_key_appears_in_the_run_directory_or_the_output(tmp_path: Path):
    (tmp_path / "train.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "oomph", "run", "--run-dir", "run", "train.py", "--api-key", KEY]
    options = {"cwd": tmp_path, "capture_output": True, "text": True, "timeout": 120, "check": False}
    ended = subprocess.run(command, **options)
    assert ended.returncode == 1
    assert KEY not in "".join(line for line in ended.stderr.splitlines() if line.startswith("oomph:"))
    explained = subprocess.run([sys.executable, "-m", "oomph", "explain", "run"], **options)
    as_json = subprocess.run([sys.executable, "-m", "oomph", "explain", "--json", "run"], **options)
    assert KEY not in explained.stdout + explained.stderr + as_json.stdout
    assert "***" in explained.stdout
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert {"run.json", "summary.json", "1.log", "1-0-supervisor.jsonl"} <= {path.name for path in files}
    assert [path.name for path in files if KEY.encode() in path.read_bytes()] == []
    again = subprocess.run([*command[:4], "--resume", *command[6:]], **options)
    assert "nothing to resume" in again.stderr  # the run is not in the default location
