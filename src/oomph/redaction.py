"""Redaction: removes keys and passwords from everything written or shown, by their names and forms. Both processes.

Scripts get keys as arguments, libraries repeat them in errors, and logs go into bug reports. Every pattern
is linear, since logs are long and may be crafted. Redacted text is not stored anywhere.

Sources of the forms: GitHub's "About authentication to GitHub", AWS' "IAM identifiers", and the documentation of
Hugging Face, OpenAI, Slack, Google and GitLab on the prefixes of their keys.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from oomph.patterns import lazy_pattern

MARK = "***"
_SECRET = (
    r"(?:api[_-]?key|access[_-]?key(?:[_-]?id)?|private[_-]?key|auth[_-]?key|account[_-]?key|secret[_-]?key"
    r"|secret|password|passwd|passphrase|credentials?|authorization|token)"
)
_QUOTE = r"""(?:\\?["'])?"""
_ANY_CASE = re.IGNORECASE | re.ASCII


class _Form(NamedTuple):
    """A form of secrets; `hints`: each of them holds one of these, and looking for that is ten times as fast."""

    hints: tuple[str, ...]
    pattern: re.Pattern[str]


_NAMES = ("key", "token", "secret", "passw", "passphrase", "credential", "authorization")
# A name begins where no letter of a name stands before it, so that its letters are gone through once, however many.
_NAMED = (
    _Form(
        _NAMES,
        lazy_pattern(
            rf"""(?<![\w.-])(?P<name>[\w.-]*?{_SECRET})(?P<between>{_QUOTE}\s{{0,3}}[=:]\s{{0,3}}"""
            rf"""(?:(?:bearer|basic)\s{{1,3}})?{_QUOTE})(?P<value>[^\s"',;&)\]}}\\]{{1,400}})""",
            _ANY_CASE,
        ),
    ),
    _Form(
        (*_NAMES, "-auth", "-pwd", "-pass"),
        lazy_pattern(
            rf"(?<![\w.-])(?P<name>-(?:[\w.-]*?(?:{_SECRET}|-(?:key|auth|pwd|pass))|auth|pwd|pass))"
            r"(?P<between>\s{1,3}|=)(?P<value>[^\s-]\S{0,400})",
            _ANY_CASE,
        ),
    ),
)
_WHOLE = (
    _Form(
        ("private key-----",),
        lazy_pattern(
            r"(?P<before>-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----)[A-Za-z0-9+/=\s\\]{1,20000}(?P<after>)", re.ASCII
        ),
    ),
    _Form(
        ("://",),
        lazy_pattern(r"(?P<before>\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@]{0,100}:)[^\s/@]{1,200}(?P<after>@)", _ANY_CASE),
    ),
    _Form(
        ("sig=", "signature="),
        lazy_pattern(r"(?P<before>[?&](?:x-amz-|x-goog-)?sig(?:nature)?=)[^\s&\"']{1,1000}(?P<after>)", _ANY_CASE),
    ),
    _Form(
        (
            *("gho_", "ghp_", "ghr_", "ghs_", "ghu_", "github_pat_", "glpat-", "akia", "asia", "aiza", "ya29."),
            *("hf_", "sk-", "xox", "npm_", "pypi-", "sg.", "eyj"),
        ),
        lazy_pattern(
            r"(?<![A-Za-z0-9])(?P<before>)(?:"
            r"gh[oprsu]_[A-Za-z0-9]{20,255}|github_pat_[A-Za-z0-9_]{20,255}|glpat-[\w-]{20,100}"
            r"|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[\w-]{35}|ya29\.[\w-]{20,400}"
            r"|hf_[A-Za-z0-9]{20,100}|sk-[\w-]{20,200}|xox[abeoprs]-[A-Za-z0-9-]{10,200}|npm_[A-Za-z0-9]{30,60}"
            r"|pypi-[\w-]{30,400}|SG\.[\w-]{20,40}\.[\w-]{20,60}"
            r"|eyJ[\w-]{10,1000}\.[\w-]{10,2000}\.[\w-]{10,1000})(?P<after>)",
            re.ASCII,
        ),
    ),
    _Form(("cookie:",), lazy_pattern(r"(?P<before>\bcookie:\s{1,3})[^\r\n]{1,2000}(?P<after>)", _ANY_CASE)),
    _Form(("bearer",), lazy_pattern(r"(?P<before>\bbearer\s{1,3})[\w.~+/=-]{12,1000}(?P<after>)", _ANY_CASE)),
)
_HINTS = tuple({hint for form in (*_WHOLE, *_NAMED) for hint in form.hints})
_ENDS = (
    *(f"{of}{dash}key" for of in ("api", "access", "private", "auth", "account", "secret") for dash in ("", "_", "-")),
    "access_key_id", "secret", "password", "passwd", "passphrase", "credential", "credentials", "authorization",
    "token", "-key", "-auth", "-pwd", "-pass", "_pwd", "_pass",
)  # fmt: skip
"""How the names of secrets end."""
_LONGEST_IN_WORDS = 80
"""A longer text is a name only if it is a single word."""
_SHORTEST = 8
"""Shorter known secrets are not searched for on their own: they might be any word."""
_NOT_SECRET = frozenset(("none", "null", "true", "false", "str", "string", "optional", MARK))
_SMALL = lazy_pattern(r"-?\d{1,6}(?:\.\d{1,6})?")
_WORDS_OF_A_TEXT = frozenset((
    "bos", "cls", "decoder", "end", "eos", "first", "last", "mask", "max", "min", "n", "next", "num", "oov", "pad",
    "per", "prev", "sep", "special", "start", "stop", "unk", "vocab",
))  # fmt: skip
"""Words before "token" that mean a model's vocabulary, not a secret."""


_known: set[str] = set()


def know_secrets(words: Iterable[str], environ: Mapping[str, str]) -> None:
    """Remember the keys that a script gets as arguments or in its environment: errors may repeat them."""
    given = list(words)
    pairs = [*itertools.pairwise(given), *(word.partition("=")[::2] for word in given), *environ.items()]
    found = {value for name, value in pairs if _is_name(name) and not _is_harmless(name, value)}
    _known.update(value for value in found if len(value) >= _SHORTEST)


def redacted(text: str) -> str:
    """The text with `***` in place of every key or password in it."""
    for secret in _known:
        text = text.replace(secret, MARK)
    lower = text.lower()
    if not _any_in(_HINTS, lower):
        return text
    for form in _WHOLE:
        if _any_in(form.hints, lower):
            text = form.pattern.sub(lambda found: f"{found['before']}{MARK}{found['after']}", text)
    for form in _NAMED:
        if _any_in(form.hints, lower):
            text = form.pattern.sub(_without_value, text)
    return text


def redacted_words(words: Iterable[str]) -> list[str]:
    """Redact the words of a command line: the word after `--api-key` is a key, too."""
    given = list(words)
    found = [redacted(word) for word in given]
    for number, word in enumerate(given[:-1]):
        following = given[number + 1]
        if word.startswith("-") and _is_name(word) and not following.startswith("--"):
            found[number + 1] = found[number + 1] if _is_harmless(word, following) else MARK
    return found


def redacted_data(value: Any, name: str = "") -> Any:
    """Redact JSON data, at any depth; lists of words are treated as command lines."""
    if isinstance(value, str):
        hides = _is_name(name) and not _is_harmless(name, value)
        return MARK if hides else redacted(value)
    if isinstance(value, Mapping):
        return {key: redacted_data(each, str(key)) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        words = all(isinstance(each, str) for each in value)
        return redacted_words(value) if words else [redacted_data(each) for each in value]
    return value


def _any_in(hints: Iterable[str], lower: str) -> bool:
    return any(hint in lower for hint in hints)


def _is_name(text: str) -> bool:
    is_word = len(text) < _LONGEST_IN_WORDS or not any(map(str.isspace, text))
    return is_word and text.lower().endswith(_ENDS)


def _without_value(found: re.Match[str]) -> str:
    name, between, value = found["name"], found["between"], found["value"]
    return found[0] if _is_harmless(name, value) else f"{name}{between}{MARK}"


def _is_harmless(name: str, value: str) -> bool:
    """Whether a value of that name is not a secret: a model setting, a path, or empty."""
    *before, last = re.split(r"[_.-]+", name.lower().lstrip("-")) or [""]
    if value.lower() in _NOT_SECRET or not value:
        return True
    if last.startswith("credential"):
        return "/" in value
    if last == "token" and before and before[-1] in _WORDS_OF_A_TEXT:
        return True
    return last in ("token", "authorization") and _SMALL.fullmatch(value) is not None
