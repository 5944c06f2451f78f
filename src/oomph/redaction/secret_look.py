"""Recognises keys and passwords by the look of a value and the words about it. Pure; both processes."""

from __future__ import annotations

import enum
import re
from typing import NamedTuple

from oomph.files.patterns import lazy_pattern

MARK = "***"


class Secrecy(enum.Enum):
    """The kind of secret that a name promises."""

    PASSWORD = 1
    """The name of a password, whose value may be any word."""
    SECRET = 2
    """The name of a secret, whose value may be any word if assigned."""
    MAYBE = 3
    """A name that often means something else, as in `auth=basic` and `pass=1`."""
    KEY = 4
    """The name of a key of any kind: of a dictionary, of a table, of a service."""


class How(enum.Enum):
    """The way a value follows its name; the groups of `AFTER_NAME`."""

    ASSIGNED = "assigned"
    SAID = "said"
    BESIDE = "beside"


class SecretName(NamedTuple):
    """The name of a possible secret."""

    kind: Secrecy
    is_option: bool = False
    """True if the name begins with a dash, so that what follows is its value."""


_STRONG_KEYS = (
    *("api", "access", "private", "auth", "account", "secret", "signing", "encryption", "subscription", "license"),
    *("ssh", "storage", "pass", "session", "deploy", "service"),
)
_LAYER_WORDS = frozenset((
    "bos", "cls", "decoder", "end", "eos", "first", "last", "mask", "max", "min", "n", "next", "num", "oov", "pad",
    "per", "prev", "sep", "special", "start", "stop", "unk", "vocab",
))  # fmt: skip
"""Words before "token" that mean a model's vocabulary, not a secret."""
_NOT_SECRET = frozenset((
    "none", "null", "true", "false", "str", "string", "optional", "yes", "no", "undefined", "nil", "nan", "n/a",
    "default", "bytes", "int", "bool", "any", "basic", "bearer", "digest", "anonymous",
))  # fmt: skip
_SAID_OF_IT = frozenset((
    "a", "above", "absent", "again", "all", "already", "an", "and", "any", "are", "as", "at", "available", "bad", "be",
    "because", "been", "before", "being", "below", "by", "can", "case", "cannot", "correct", "currently", "different",
    "does", "empty", "equal", "exactly", "failed", "field", "for", "from", "given", "good", "has", "hash", "held",
    "here", "hidden", "if", "in", "incorrect", "insecure", "invalid", "is", "it", "its", "kept", "known", "less",
    "likely", "long", "longer", "mandatory", "missing", "more", "must", "my", "necessary", "needed", "never", "new",
    "not", "now", "ok", "old", "on", "one", "only", "or", "our", "out", "part", "possible", "prompt", "public", "read",
    "ready", "right", "safe", "same", "secure", "sent", "set", "short", "shown", "so", "still", "strong", "stronger",
    "taken", "that", "the", "their", "then", "there", "this", "to", "too", "undefined", "unknown", "unset", "use",
    "valid", "very", "was", "weak", "what", "when", "where", "which", "will", "with", "without", "written", "wrong",
    "you", "your",
))  # fmt: skip
"""Words that describe a password instead of naming it."""
_SAID_OF_OPTION = _SAID_OF_IT - {
    *("bad", "correct", "different", "good", "hidden", "insecure", "known", "long", "longer", "new", "old", "open"),
    *("public", "right", "safe", "same", "secure", "short", "strong", "stronger", "weak", "wrong"),
}
"""Words that describe the value of an option; unlike those said of a password, they leave out adjectives."""
_OPTION = lazy_pattern(r"--?[A-Za-z][\w.-]*", re.ASCII)
_NUMBER = lazy_pattern(r"[-+]?[\d.,_]{1,12}(?:e[-+]?\d{1,3})?(?:\s?(?:[a-z]{1,3}|%)(?:/[a-z]{1,6})?)?", re.ASCII | re.I)
_ADDRESS = lazy_pattern(r"[\w.-]{0,60}:\d{1,5}(?::\d{1,5})?(?:/\w{1,5})?", re.ASCII)
_PLACEHOLDER = lazy_pattern(r"\$\{?[A-Z_][A-Z0-9_]*\}?|\$\(.*|[{<%\[(].*|x{3,}|\*{3,}|\.{2,}|…+", re.ASCII)
_CODE = lazy_pattern(r"[A-Za-z_][\w.]*[(\[].*", re.ASCII | re.DOTALL)
_FILE = lazy_pattern(
    r"(?:~|\.{0,2})/.*|[\w.-]+\.(?:py|ipynb|json|toml|ya?ml|txt|csv|pem|keras|h5|env|cfg|ini)", re.ASCII
)
_MADE = lazy_pattern(
    r"(?:mixed_)?b?float\d+|[bft]f?p?\d+|u?int\d+|v\d.*|(?:\w{0,9}(?:net|ception|vit|swin|yolo|next)|vgg|bert|gpt|step|fold|seed|run|exp|gpu|layer|conv|top|"
    r"epoch|stage|part|phase|model|dense|block|cuda|sm)[-_]?v?\d.*",
    re.ASCII | re.I,
)
"""Words with a number in them that people give to models and settings."""
_RUNS = lazy_pattern(r"[A-Z]*[a-z]+|[A-Z]+|\d+", re.ASCII)
_PIECES = lazy_pattern(r"[A-Za-z0-9]{8,}", re.ASCII)
_ENCODED = lazy_pattern(r"%[0-9A-Fa-f]{2}")
_OF_A_NAME = lazy_pattern(r"[\w.-]*")
_SYMBOLS = frozenset("!@#$^&*?~+%")
_LONGEST_WORD = 24
_CAN_READ = 120
"""The number of characters of a value to look at."""


def named(word: str, before: str, *, is_several: bool, goes_on: bool) -> SecretName | None:
    """The secret that a name promises. `before`: the text up to its last word; `goes_on`: more follows."""
    if "%" in before:
        before = _ENCODED.sub(lambda found: "_" if found[0].lower() == "%5f" else " ", before)
    kind = _kind(word.lower(), before, word)
    if kind is None:
        return None
    own = before[len(before) - _OF_A_NAME.match(before[::-1]).end() :]  # type: ignore[union-attr]
    if goes_on or (is_several and word.lower() == "token"):
        return SecretName(Secrecy.KEY)
    return SecretName(kind, own.startswith("-"))


def _kind(lower: str, before: str, word: str) -> Secrecy | None:
    joined = before[-1:].isalnum()
    if lower.startswith(("passw", "passp", "passc")):
        return Secrecy.PASSWORD
    if lower == "key":
        *_, last = ["", *re.split(r"[\W_]+", before[-_LONGEST_WORD:].lower().rstrip("_- "))]
        if last.endswith(_STRONG_KEYS) and not before.endswith(("/", "'", '"', ",", ":", "=")):
            return Secrecy.SECRET
        return None if joined and not (word[0] == "K" and before[-1].islower()) else Secrecy.KEY
    if lower in ("pass", "auth", "pwd", "pw", "cred"):
        if joined:
            return (
                Secrecy.PASSWORD if lower == "pwd" and before.lower().endswith(("db", "user", "my", "root")) else None
            )
        own = before[-1:] in ("_", "-") and before[-2:-1] not in ("", " ", "-")
        return Secrecy.PASSWORD if lower == "pwd" or own else Secrecy.MAYBE
    if lower == "token" and _of_a_vocabulary(before):
        return None
    return Secrecy.SECRET


def _of_a_vocabulary(before: str) -> bool:
    if before[-1:] not in ("_", ".", "-"):
        return False
    return re.split(r"[^a-z]", before[-_LONGEST_WORD:-1].lower())[-1] in _LAYER_WORDS


def is_secret(name: SecretName, how: How, value: str, is_quoted: bool = False) -> bool:
    """True if what follows that name is a key or a password."""
    value = value[:_CAN_READ].rstrip(".!?:,\\") or value[:_CAN_READ]
    lower = value.lower()
    if not value or MARK in value or lower in _NOT_SECRET or _PLACEHOLDER.fullmatch(value) is not None:
        return False
    if how is not How.ASSIGNED and _OPTION.fullmatch(value) and not looks_generated(value):
        return False  # the next one
    if value.isupper() and value.endswith(("KEY", "TOKEN", "PASSWORD", "PASSWD", "PASSPHRASE", "SECRET", "AUTH")):
        return False  # in a usage
    if looks_generated(value):
        return _FILE.fullmatch(value) is None
    if name.kind is Secrecy.KEY:
        return (name.is_option or how is How.ASSIGNED) and _has_symbol(value) and _is_mixed(value)
    if _FILE.fullmatch(value) or (_CODE.fullmatch(value) and (name.kind is not Secrecy.PASSWORD or value[-1] in "([")):
        return False
    if name.kind is not Secrecy.PASSWORD and _NUMBER.fullmatch(value):
        return False
    if how is How.ASSIGNED or name.is_option:
        if name.kind is Secrecy.MAYBE and not name.is_option:
            return _is_mixed(value)
        return is_quoted or lower not in (_SAID_OF_OPTION if how is How.BESIDE else _SAID_OF_IT)
    if how is How.SAID and name.kind is Secrecy.PASSWORD:
        return is_quoted or not (lower in _SAID_OF_IT or (lower.isalpha() and lower.endswith(("ed", "ing", "ly"))))
    if name.kind is Secrecy.MAYBE:
        return False
    return _is_mixed(value) or (name.kind is Secrecy.PASSWORD and value.isdigit() and len(value) > 3)


def looks_like_password(value: str, is_certain: bool = False) -> bool:
    """True if a value of unknown meaning, as of -p, is more likely a password than a setting.

    With `is_certain`, only if hardly anything else is possible. Arguments distinguish runs: `-p fold7` and
    `-p fold8` must not look the same, and any word with a number at its end may be such a setting.
    """
    if is_setting(value) or _MADE.fullmatch(value) or "=" in value:
        return False
    if not is_certain:
        return looks_generated(value) or _is_mixed(value)
    numbers = sum(run.isdigit() for run in _RUNS.findall(value))
    return looks_generated(value) or (_is_mixed(value) and (_has_symbol(value) or (numbers > 1 and len(value) > 7)))


def is_setting(value: str) -> bool:
    """True if a value is a number, an address, a path or a placeholder."""
    patterns = (_NUMBER, _ADDRESS, _FILE, _PLACEHOLDER)
    return value == MARK or any(pattern.fullmatch(value) is not None for pattern in patterns)


def looks_generated(value: str) -> bool:
    """True if nobody thinks of such a word: letters and digits, or capitals, in no order."""
    return any(map(_is_generated, _PIECES.findall(value[:_CAN_READ])))


def _is_generated(piece: str) -> bool:
    if len(piece) < 8 or piece.isdigit():
        return len(piece) > 12
    runs = _RUNS.findall(piece)
    digits = sum(run.isdigit() for run in runs)
    if len(runs) > 3 and len(piece) < 2 * len(runs):
        return True
    if digits and len(piece) >= 16 and (set(piece.lower()) <= set("0123456789abcdef") or digits > 2):
        return True
    return len(piece) >= 24 and (bool(digits) or piece.islower() or piece.isupper())


def _is_mixed(value: str) -> bool:
    """True if letters stand beside digits or symbols, as in passwords."""
    letters = any(map(str.isalpha, value))
    return len(value) > 4 and letters and (any(map(str.isdigit, value)) or _has_symbol(value)) and "/" not in value


def _has_symbol(value: str) -> bool:
    return not _SYMBOLS.isdisjoint(value)
