"""Recognises keys and passwords in text by their form, by how a value looks, and by the words around it. Pure.

Used in both processes. Logs are long and may be crafted, so every pattern runs in linear time: repetitions are bounded
or come last.

Sources for the forms: GitHub's "About authentication to GitHub", AWS' "IAM identifiers", and the documentation of
Hugging Face, OpenAI, Slack, Google, GitLab, Stripe, NVIDIA, Docker, Vault and Atlassian on the prefixes of their keys.
"""

from __future__ import annotations

import enum
import re
from typing import NamedTuple

from oomph.files.patterns import lazy_pattern

_ANY_CASE = re.IGNORECASE | re.ASCII
MARK = "***"


class SecretForm(NamedTuple):
    """A form of secrets. Each secret contains one of `hints`, which are ten times faster to search for."""

    hints: tuple[str, ...]
    pattern: re.Pattern[str]


NAME_HINTS = ("key", "token", "secret", "pass", "pwd", "pw", "cred", "auth", "jwt", "cookie", "sess")
NAME = lazy_pattern(
    r"(?P<word>passw(?:or)?d|passphrase|passcode|pass|pwd|pw|secret|credential|cred|authorization|auth|token|key|jwt"
    r"|cookie|session(?:id)?|sessid)"
    r"(?P<several>s)?(?:_id)?(?:[_-]?\d{1,2})?(?P<rest>(?:[_-][A-Za-z0-9]{1,20}){0,3})(?![A-Za-z0-9])",
    _ANY_CASE,
)
"""The last word of a secret's name, with anything that may follow it in the name."""

_BLANK = r"[^\S\n]{1,40}"
_GAP = r"[^\S\n]{0,40}(?:\n[^\S\n]{0,40})?"
_QUOTE = r"""(?:\\{0,3}["'`]|%22|%27|&quot;|\\u0022)"""
_BETWEEN = (  # "the token from the environment variable HF_TOKEN (read-only) is"
    rf"(?:{_BLANK}(?:\(?(?:environment|env|variable|var|value|header|flag|option|argument|field)\)?"
    rf"|(?:for|of|from|in){_BLANK}\S{{1,100}}(?:{_BLANK}[^\s:=]{{1,60}}(?=[:=]|{_BLANK}is\b))?)){{0,3}}"
)
_EQUALS = r"(?::=|==?>?|::?|[-=]>|→|<-|%3[ad]|\\u003[ad]|\\x3[ad]|&#(?:61|x3d);)"
_LINKS = rf"(?:{_BLANK}(?:is|was|are|has|have|been|be|now|set|reset|changed|equals?|to|as)(?!\w)){{1,4}}[:=]?"
AFTER_NAME = lazy_pattern(
    rf"(?:(?P<assigned>{_QUOTE}?\]?{_BETWEEN}{_GAP}{_EQUALS}(?:{_GAP}|%20|\+)|(?<=\w)>"
    rf"|{_QUOTE}?,?{_GAP}(?:- )?{_QUOTE}?value{_QUOTE}?[^\S\n]{{0,3}}[:=]{_GAP})"
    rf"|(?P<said>{_QUOTE}?{_BETWEEN}{_LINKS}{_BLANK})"
    rf"|(?P<beside>{_QUOTE}?{_BETWEEN}{_BLANK}(?=[^\s=:])|{_QUOTE}?{_GAP}(?:[│|,]|\t){_GAP}|\((?=[bfru]?[\"'])))"
    rf"(?:(?:bearer|basic|token|digest|apikey)(?:{_BLANK}|%20))?(?:[bfru]{{1,2}}(?=[\"']))?"
    r"""(?:\\{0,3}"(?P<double>[^"\r\n]{1,2000})"|\\{0,3}'(?P<single>[^'\r\n]{1,2000})'"""
    rf"""|{_QUOTE}?(?P<bare>(?:[^\s"'`,;&)\]}}\\<%│|]|%(?!2[0267])|\\(?![nrt"'u\\])|<(?!/)){{1,120}}))""",
    _ANY_CASE,
)
"""Matches from the end of a name to its value, which may follow a sign or words, or come right after the name."""
REST_OF_VALUE = lazy_pattern(r"""[^\s"'`,;&)\]}\\<%│|]*""")
"""The rest of a value that is longer than needed to judge it."""

USER_AND_PASSWORD = SecretForm(
    ("-u", "--user", "--proxy-user", "--login"),
    lazy_pattern(
        r"""(?<![\w-])(?:(?:-[uU]|--user|--proxy-user|--login)(?:["']?,?[^\S\n]{1,10}["']?|=["']?)|-u(?=\w))"""
        r"""[^\s:"'/=]{1,100}:(?P<value>[^\s"'`/,)\]]{1,200})""",
        re.ASCII,
    ),
)
PASSWORD_FLAG = SecretForm(
    ("-p", "-a", "-w"),
    lazy_pattern(
        r"""(?<![\w-])(?P<flag>-[paw])(?P<between>["']?,?[^\S\n]{1,10}|=|)(?:"(?P<double>[^"\r\n]{1,200})\""""
        r"""|'(?P<single>[^'\r\n]{1,200})'|(?P<bare>[^\s"'`=-][^\s"'`]{0,200}))""",
        re.ASCII,
    ),
)
SERVICE_KEY = SecretForm(
    ("--pat", "--wandb", "--neptune", "--comet", "--hf", "--hugging", "--github", "--gitlab", "--openai", "--clearml"),
    lazy_pattern(
        r"""(?<![\w-])(?P<before>--(?:pat|wandb|neptune|comet(?:-?ml)?|hf|hugging-?face|github|gitlab|openai|clearml)"""
        r"""(?:["']?,?[^\S\n]{1,10}["']?|=["']?))(?=[A-Za-z+=]{0,60}\d)[A-Za-z0-9+=]{20}[A-Za-z0-9+/=_-]{0,2000}(?P<after>)""",
        re.ASCII,
    ),
)
"""A service's name as an option, followed by the name of a project or by the service's key."""
ASKS_FOR_PASSWORD = lazy_pattern(
    r"""(?:(?<![\w-])(?:-u|-U|--user(?:name)?)(?:["']?,?[^\S\n]{1,10}["']?|=)(?!-)[^\s"']{1,60}(?<!\.py)(?=[\s"'])"""
    r"|\b(?:sshpass|mysql(?:dump|admin)?|mariadb|redis-cli|ldap\w+|smbclient|mongo\w*|(?:docker|podman|helm) login)\b)",
    re.ASCII,
)
"""Signs that a nearby -p is a password: a user's name, or a program with such an option."""

WHOLE = (
    SERVICE_KEY,
    SecretForm(
        ("private key-----",),
        lazy_pattern(
            r"(?P<before>-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----)[A-Za-z0-9+/=\s\\]{1,20000}(?P<after>)", re.ASCII
        ),
    ),
    SecretForm(
        ("://", "%3a%2f%2f"),
        lazy_pattern(
            r"(?P<before>\b[a-z][a-z0-9+.-]{1,20}(?:://|%3A%2F%2F)(?:[^\s:/@%]|%(?!2F|3A)){0,100}(?::|%3A))"
            r"(?:[^\s/@?#\"']{1,200}(?:@[^\s/@?#\"'.:]{1,60})?(?=@)|(?:[^\s/@?#\"'%]|%(?!40)){1,200}(?=%40))"
            r"(?P<after>@|%40)",
            _ANY_CASE,
        ),
    ),
    SecretForm(  # a key in place of the user, as in Sentry's URLs
        ("://",),
        lazy_pattern(
            r"(?P<before>\b[a-z][a-z0-9+.-]{1,20}://)(?=[a-z]{0,60}[0-9])[a-z0-9]{20,200}(?P<after>@)", _ANY_CASE
        ),
    ),
    SecretForm(  # Telegram
        ("bot",), lazy_pattern(r"(?P<before>\bbot\d{6,12}:)[\w-]{30,60}(?P<after>)", _ANY_CASE)
    ),
    SecretForm(
        ("sig=", "signature=", "sig%3d", "signature%3d"),
        lazy_pattern(
            r"(?P<before>(?:[?&]|%3F|%26)(?:x-amz-|x-goog-)?sig(?:nature)?(?:=|%3D))[^\s&\"']{1,1000}(?P<after>)",
            _ANY_CASE,
        ),
    ),
    SecretForm(
        (
            *("gho_", "ghp_", "ghr_", "ghs_", "ghu_", "github_pat_", "glpat-", "akia", "asia", "aiza", "ya29."),
            *("hf_", "sk-", "xox", "npm_", "pypi-", "sg.", "eyj", "k_live_", "k_test_", "whsec_", "dckr_pat_"),
            *("nvapi-", "hvs.", "gsk_", "r8_", "atatt3x", "shpat_", "glrt-", "age-secret-key-"),
        ),
        lazy_pattern(
            r"(?<![A-Za-z0-9])(?P<before>)(?:"
            r"gh[oprsu]_[A-Za-z0-9]{20,255}|github_pat_[A-Za-z0-9_]{20,255}|gl(?:pat|rt)-[\w-]{20,100}"
            r"|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[\w-]{35}|ya29\.[\w-]{20,400}|[sr]k_(?:live|test)_[A-Za-z0-9]{16,200}"
            r"|hf_[A-Za-z0-9]{20,100}|sk-[\w-]{20,200}|xox[abeoprs]-[A-Za-z0-9-]{10,200}|npm_[A-Za-z0-9]{30,60}"
            r"|pypi-[\w-]{30,400}|SG\.[\w-]{20,40}\.[\w-]{20,60}|whsec_[A-Za-z0-9+/]{20,100}|dckr_pat_[\w-]{20,100}"
            r"|nvapi-[\w-]{40,100}|hvs\.[\w-]{20,200}|gsk_[A-Za-z0-9]{40,80}|r8_[A-Za-z0-9]{30,50}"
            r"|ATATT3x[\w=-]{40,300}|shpat_[0-9a-f]{32}|AGE-SECRET-KEY-[A-Z0-9]{40,80}"
            r"|eyJ[\w-]{10,1000}\.[\w-]{10,2000}\.[\w-]{10,1000})(?P<after>)",
            re.ASCII,
        ),
    ),
    SecretForm(("cookie:",), lazy_pattern(r"(?P<before>\bcookie:\s{1,3})[^\r\n]{1,2000}(?P<after>)", _ANY_CASE)),
    SecretForm(  # --cookie="name=value; name=value"
        ("cookie",),
        lazy_pattern(
            r"(?P<before>\bcookies?(?:=|[^\S\n]{1,10})[\"']?)(?:[\w.-]{1,60}=[^\s\"';]{1,1000}(?:;[^\S\n]?)?){1,20}(?P<after>)",
            _ANY_CASE,
        ),
    ),
    SecretForm(("bearer",), lazy_pattern(r"(?P<before>\bbearer\s{1,3})[\w.~+/=-]{12,1000}(?P<after>)", _ANY_CASE)),
    SecretForm(
        ("authorization",),
        lazy_pattern(
            r"(?P<before>\bauthorization[\"']?[^\S\n]{0,3}[:=][^\S\n]{0,3}[\"']?(?:AWS4-HMAC-SHA256|Basic|Bearer|Digest"
            r"|GoogleLogin|Hawk|Negotiate|NTLM|OAuth|SharedKey|Signature|Token)[^\S\n]{1,3})[^\r\n\"']{1,2000}(?P<after>)",
            _ANY_CASE,
        ),
    ),
    SecretForm(
        ("hooks.slack.com/", "/api/webhooks/"),
        lazy_pattern(r"(?P<before>\b(?:hooks\.slack\.com/\w{1,20}|/api/webhooks/\d{1,30})/)[\w/-]{8,200}(?P<after>)"),
    ),
    SecretForm(
        ("basic",),
        lazy_pattern(r"(?P<before>\bBasic\s{1,3})(?=[A-Za-z+/]{0,60}[0-9=])[A-Za-z0-9+/]{8,1000}={0,2}(?P<after>)"),
    ),
    SecretForm(
        ("login",),
        lazy_pattern(r"(?P<before>\blogin(?:\s{1,3}|\(['\"]))(?=[a-f]{0,40}[0-9])[0-9a-f]{32,64}(?P<after>)\b"),
    ),
    SecretForm(  # .netrc
        ("login ",),
        lazy_pattern(r"(?P<before>\blogin\s{1,20}[^\s,]{1,100}\s{1,20}password\s{1,20})\S{1,400}(?P<after>)"),
    ),
)
"""The forms that need no name; their groups `before` and `after` are not redacted."""
COLOURS = lazy_pattern(r"(?:\x1b|\\x1b|\\033|\\u001b|\\e|\x9b)\[[0-9;:]{0,40}[A-Za-z]", re.IGNORECASE)
COLOUR_HINTS = ("\x1b[", "\\x1b[", "\\033[", "\\u001b[", "\\e[", "\x9b[")


class Secrecy(enum.Enum):
    """The kind of secret that a name implies."""

    PASSWORD = 1
    """The name of a password, whose value may be any word."""
    SECRET = 2
    """The name of a secret, whose value may be any word if assigned."""
    MAYBE = 3
    """A name that often means something else, as in `auth=basic` and `pass=1`."""
    KEY = 4
    """The name of a key of any kind: in a dictionary, in a table, for a service."""
    SESSION = 5
    """The name of a session, whose value may be its key or a name that somebody has given it."""


class How(enum.Enum):
    """The ways in which a value follows its name; the members are groups in `AFTER_NAME`."""

    ASSIGNED = "assigned"
    SAID = "said"
    BESIDE = "beside"


class SecretName(NamedTuple):
    """The name of a possible secret."""

    kind: Secrecy
    is_option: bool = False
    """True if the name starts with a dash, so that its value follows."""


_STRONG_KEYS = (
    *("api", "access", "private", "auth", "account", "secret", "signing", "encryption", "subscription", "license"),
    *("ssh", "storage", "pass", "session", "deploy", "service"),
)
_LAYER_WORDS = frozenset((
    "bos", "cls", "decoder", "end", "eos", "first", "last", "mask", "max", "min", "n", "next", "num", "oov", "pad",
    "per", "prev", "sep", "special", "start", "stop", "unk", "vocab",
))  # fmt: skip
"""Words before "token" that refer to a model's vocabulary, not to a secret."""
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
"""Words that describe a password rather than being one."""
_SAID_OF_OPTION = _SAID_OF_IT - {
    *("bad", "correct", "different", "good", "hidden", "insecure", "known", "long", "longer", "new", "old", "open"),
    *("public", "right", "safe", "same", "secure", "short", "strong", "stronger", "weak", "wrong"),
}
"""Words that describe the value of an option. Unlike the words that describe a password, they include no adjectives."""
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
"""Words containing a number that people use to name models and settings."""
_RUNS = lazy_pattern(r"[A-Z]*[a-z]+|[A-Z]+|\d+", re.ASCII)
_PIECES = lazy_pattern(r"[A-Za-z0-9]{8,}", re.ASCII)
_ENCODED = lazy_pattern(r"%[0-9A-Fa-f]{2}")
_OF_A_NAME = lazy_pattern(r"[\w.-]*")
_SYMBOLS = frozenset("!@#$^&*?~+%")
_LONGEST_WORD = 24
_CAN_READ = 120
"""The number of characters of a value to examine."""


def named(word: str, before: str, *, is_several: bool, goes_on: bool) -> SecretName | None:
    """Return the secret that a name implies, or None if it implies none.

    Args:
        before: the text up to the last word of the name.
        goes_on: True if the name continues after that word.
    """
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
    if lower.startswith("sess"):
        return None if joined and lower == "session" else Secrecy.SESSION
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
    """True if the value that follows this name is a key or a password."""
    value = value[:_CAN_READ].rstrip(".!?:,\\") or value[:_CAN_READ]
    lower = value.lower()
    if not value or MARK in value or lower in _NOT_SECRET or _PLACEHOLDER.fullmatch(value) is not None:
        return False
    if how is not How.ASSIGNED and _OPTION.fullmatch(value) and not looks_generated(value):
        return False  # the next option
    if value.isupper() and value.endswith(("KEY", "TOKEN", "PASSWORD", "PASSWD", "PASSPHRASE", "SECRET", "AUTH")):
        return False  # a placeholder in a usage message
    if looks_generated(value):
        return _FILE.fullmatch(value) is None
    if name.kind is Secrecy.SESSION:
        return (name.is_option or how is How.ASSIGNED) and looks_like_password(value, is_certain=True)
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
    """True if a value of unknown meaning, as after -p, is more likely to be a password than a setting.

    With `is_certain`, True only if hardly anything else is possible: any word that ends in a number may be a setting.
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
    """True if nobody would make up such a word: letters and digits, or capitals, in random order."""
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
    """True if the value mixes letters with digits or symbols, as passwords do."""
    letters = any(map(str.isalpha, value))
    return len(value) > 4 and letters and (any(map(str.isdigit, value)) or _has_symbol(value)) and "/" not in value


def _has_symbol(value: str) -> bool:
    return not _SYMBOLS.isdisjoint(value)
