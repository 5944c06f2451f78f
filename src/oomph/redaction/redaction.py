"""Redaction: removes keys and passwords from all output, recognising them by name and form. Used in both processes.

Scripts receive keys as arguments, libraries repeat them in errors, and logs end up in bug reports. Possible keys are
hidden unless they are clearly words, numbers, paths or code (`secret_forms.py`). The redacted text is not stored
anywhere.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from oomph.redaction.secret_forms import (
    AFTER_NAME,
    ASKS_FOR_PASSWORD,
    COLOUR_HINTS,
    COLOURS,
    MARK,
    NAME,
    NAME_HINTS,
    PASSWORD_FLAG,
    REST_OF_VALUE,
    SERVICE_KEY,
    USER_AND_PASSWORD,
    WHOLE,
    How,
    Secrecy,
    SecretName,
    is_secret,
    is_setting,
    looks_like_password,
    named,
)

_HINTS = tuple({hint for form in (*WHOLE, USER_AND_PASSWORD, PASSWORD_FLAG) for hint in form.hints} | {*NAME_HINTS})
_LONGEST_IN_WORDS = 80
"""The maximum length, in characters, of a multi-word text that may be a name."""
_SHORTEST = 8
"""The minimum length, in characters, of a known secret to search for on its own: a shorter one might be any word."""
_NEAR = 200
"""The number of characters to examine before a name, for the rest of the name or for the meaning of a -p."""
_LONGEST_END = 80
"""The number of characters to examine at the end of a name."""

_DIGEST_BYTES = 2
"""The length of a digest in bytes: enough to tell that a secret has changed, too few to work out the secret."""

_known: set[str] = set()
_around: set[str] = set()
"""Words from the arguments and the environment that contain a secret, such as a URL with a password."""


def know_secrets(words: Iterable[str], environ: Mapping[str, str]) -> None:
    """Remember the keys in a script's arguments and environment, since errors may repeat them.

    Only those that are certain: whatever holds a known key is not saved with a checkpoint.
    """
    given = list(words)
    found = {given[number][start:] for number, start in _hidden(given, is_certain=True)}
    found |= {value for name, value in environ.items() if _names_secret(name, value)}
    assigned = (word.partition("=")[::2] for word in given)
    found |= {value for name, value in assigned if (of := _whole_name(name)) and is_secret(of, How.ASSIGNED, value)}
    words_and_values = {*given, *environ.values()}
    found |= {secret for word in words_and_values for secret in _by_form(word)}
    _known.update(value for value in found if len(value) >= _SHORTEST)
    _around.update(word for word in words_and_values if len(word) >= _SHORTEST and redacted(word) != word)


def holds_secret(name: str, value: str) -> bool:
    """True if a value with that name is a key or a password, judging by the name or by the value's form."""
    return _names_secret(name, value) or redacted(value) != value


def knows_secrets() -> bool:
    """True if the arguments or the environment contain a key."""
    return bool(_known or _around)


def holds_known_secret(text: str | bytes) -> bool:
    """True if the text contains a key from the arguments or the environment."""
    if isinstance(text, bytes):
        return any(secret.encode(errors="surrogateescape") in text for secret in _known | _around)
    return any(secret in text for secret in _known) or any(word in text for word in _around)


def without_known_secrets(text: str) -> str:
    """Replace each key from the arguments and the environment with `***`."""
    for secret in _known:
        text = text.replace(secret, MARK)
    return text


def digest_of_secret(name: str, value: str) -> str:
    """Return `***` and a short digest for a value that is or contains a secret, by name or form; empty otherwise."""
    return f"{MARK} {_digest(value)}" if holds_secret(name, value) else ""


def digest_of_words(words: Iterable[str]) -> str:
    """Return a short digest of a command line that contains a secret, or an empty string for others.

    It tells command lines apart that look the same once they are redacted.
    """
    given = list(words)
    return "" if redacted_words(given) == given else _digest("\0".join(given))


def _digest(text: str) -> str:
    from hashlib import blake2b  # late: it loads OpenSSL

    return blake2b(text.encode(errors="surrogateescape"), digest_size=_DIGEST_BYTES).hexdigest()


def redacted(text: str) -> str:
    """Replace every key or password in the text with `***`."""
    text = without_known_secrets(text)
    if any(hint in text for hint in COLOUR_HINTS):  # colours may separate a key from its name, or split a name
        plain = COLOURS.sub("", text)
        without = _redacted_plain(plain)
        if without != plain:
            return without
    return _redacted_plain(text)


def redacted_words(words: Iterable[str]) -> list[str]:
    """Redact the words of a command line, in which the word after `--api-key` also counts as a key."""
    given = list(words)
    found = [redacted(word) for word in given]
    for number, start in _hidden(given):
        found[number] = given[number][:start] + MARK
    return found


def redacted_data(value: Any, name: str = "") -> Any:
    """Redact JSON data at any depth; lists of words are treated as command lines."""
    if isinstance(value, str):
        return MARK if _names_secret(name, value) else redacted(value)
    if isinstance(value, Mapping):
        return {key: redacted_data(each, str(key)) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        words = all(isinstance(each, str) for each in value)
        return redacted_words(value) if words else [redacted_data(each) for each in value]
    return value


def _by_form(word: str) -> Iterator[str]:
    """Yield the secrets that a word's form reveals, both as written and as a library would decode them in a URL."""
    lower = word.lower()
    for form in WHOLE:
        for found in form.pattern.finditer(word) if _any_in(form.hints, lower) else ():
            secret = word[found.end("before") : found.start("after")]
            yield from (secret, unquote(secret))


def _redacted_plain(text: str) -> str:
    lower = text.lower()
    if not _any_in(_HINTS, lower):
        return text
    for form in WHOLE:
        if _any_in(form.hints, lower):
            text = form.pattern.sub(lambda found: f"{found['before']}{MARK}{found['after']}", text)
    if _any_in(USER_AND_PASSWORD.hints, lower):
        text = _without(text, _after_users(text))
    if _any_in(PASSWORD_FLAG.hints, lower):
        text = _without(text, _after_flags(text))
    return _without(text, _after_names(text)) if _any_in(NAME_HINTS, lower) else text


def _any_in(hints: Iterable[str], lower: str) -> bool:
    return any(hint in lower for hint in hints)


def _without(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return the text with `***` in place of the given spans."""
    kept, at = [], 0
    for start, end in spans:
        kept += [text[at:start], MARK]
        at = end
    return "".join([*kept, text[at:]])


def _after_names(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of values that belong to named secrets. Names within other values are searched as well."""
    at = 0
    while found := NAME.search(text, at):
        at = found.end()
        if found["rest"] and _any_in(NAME_HINTS, found["rest"].lower()):  # the last word of a name decides
            at = found.start("rest")
            continue
        after = AFTER_NAME.match(text, at)
        name = None if after is None else _name(text, found)
        if after is not None and name is not None:
            how = How.ASSIGNED if after["assigned"] else How.SAID if after["said"] else How.BESIDE
            group = _value_group(after)
            if is_secret(name, how, after[group], is_quoted=group != "bare"):
                at = REST_OF_VALUE.match(text, after.end(group)).end()  # type: ignore[union-attr]
                at = at if group == "bare" else after.end(group)
                yield after.start(group), at


def _name(text: str, found: re.Match[str]) -> SecretName | None:
    before = text[max(found.start() - _NEAR, 0) : found.start()]
    return named(found["word"], before, is_several=bool(found["several"]), goes_on=bool(found["rest"]))


def _after_users(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of passwords in `-u user:password`, but not in `-u 1000:1000`, which is a user ID."""
    for found in USER_AND_PASSWORD.pattern.finditer(text):
        if not is_setting(found["value"]):
            yield found.span("value")


def _after_flags(text: str) -> Iterator[tuple[int, int]]:
    for found in PASSWORD_FLAG.pattern.finditer(text):
        group = _value_group(found)
        asks = _asks_for_password(text[max(found.start() - _NEAR, 0) : found.end() + _NEAR])
        if _is_password_of(found["flag"], found["between"], found[group], asks):
            yield found.span(group)


def _asks_for_password(near: str) -> bool:
    return ASKS_FOR_PASSWORD.search(near) is not None


def _is_password_of(flag: str, between: str, value: str, asks: bool, is_certain: bool = False) -> bool:
    """True if the value of a -p, or of a program's own -a or -w, is a password.

    Args:
        asks: True if the text around it names a program or user that needs a password.
    """
    if value == MARK or value.startswith("-"):
        return False
    if asks:
        return not is_setting(value)
    return flag == "-p" and bool(between) and looks_like_password(value, is_certain)


def _value_group(found: re.Match[str]) -> str:
    return str(found.lastgroup)  # in each of the patterns, the value comes last


def _hidden(words: Sequence[str], is_certain: bool = False) -> Iterator[tuple[int, int]]:
    """Yield the index of each word that contains a key, judging by the words before it, and the key's offset in it."""
    asks = _asks_for_password(" ".join(words))  # only once: a run.json may contain a long command line
    for number, (word, following) in enumerate(itertools.pairwise(words), start=1):
        if word in ("-p", "-a", "-w"):
            hides = _is_password_of(word, " ", following, asks, is_certain)
        elif found := USER_AND_PASSWORD.pattern.fullmatch(f"{word} {following}"):
            if not is_setting(found["value"]):
                yield number, found.start("value") - len(word) - 1
            continue
        else:
            is_key = SERVICE_KEY.pattern.fullmatch(f"{word} {following}") is not None
            hides = is_key or _is_followed_by_secret(word, following)
        if hides:
            yield number, 0
        elif (flag := PASSWORD_FLAG.pattern.fullmatch(following)) and _is_password_of(
            flag["flag"], flag["between"], flag[_value_group(flag)], asks, is_certain
        ):
            yield number, flag.start(_value_group(flag))


def _is_followed_by_secret(word: str, following: str) -> bool:
    name = _whole_name(word)
    if name is None:
        return False
    is_password = name.kind is Secrecy.PASSWORD and name.is_option  # its value may be any word, such as "correct"
    return is_secret(name, How.BESIDE, following, is_quoted=is_password)


def _names_secret(name: str, value: str) -> bool:
    """True if JSON data or a variable with that name is secret. The key of a mapping or of a fit is not."""
    found = _whole_name(name)
    return found is not None and found.kind is not Secrecy.KEY and is_secret(found, How.ASSIGNED, value)


def _whole_name(text: str) -> SecretName | None:
    """Return the secret that a text implies if the whole text is a name, or None."""
    if len(text) >= _LONGEST_IN_WORDS and any(map(str.isspace, text)):
        return None
    at, last = max(len(text) - _LONGEST_END, 0), None
    while found := NAME.search(text, at):
        last = found
        at = found.start("rest") if found["rest"] else found.end()
    return _name(text, last) if last is not None and last.end() == len(text) else None
