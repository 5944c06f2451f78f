"""The forms in which keys and passwords stand in text, as patterns. Both processes.

Logs are long and may be crafted, so every pattern is linear: repetitions are bounded, or the last thing in it.

Sources of the forms: GitHub's "About authentication to GitHub", AWS' "IAM identifiers", and the documentation of
Hugging Face, OpenAI, Slack, Google, GitLab, Stripe, NVIDIA, Docker, Vault and Atlassian on the prefixes of their keys.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from oomph.files.patterns import lazy_pattern

_ANY_CASE = re.IGNORECASE | re.ASCII


class SecretForm(NamedTuple):
    """A form of secrets; each holds one of `hints`, which is ten times as fast to look for."""

    hints: tuple[str, ...]
    pattern: re.Pattern[str]


NAME_HINTS = ("key", "token", "secret", "pass", "pwd", "pw", "cred", "auth", "jwt")
NAME = lazy_pattern(
    r"(?P<word>passw(?:or)?d|passphrase|passcode|pass|pwd|pw|secret|credential|cred|authorization|auth|token|key|jwt)"
    r"(?P<several>s)?(?:_id)?(?:[_-]?\d{1,2})?(?P<rest>(?:[_-][A-Za-z0-9]{1,20}){0,3})(?![A-Za-z0-9])",
    _ANY_CASE,
)
"""The last word of a secret's name, with what may follow in the name."""

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
"""The pattern from the end of a name to its value, which follows a sign, words, or just the name."""
REST_OF_VALUE = lazy_pattern(r"""[^\s"'`,;&)\]}\\<%│|]*""")
"""The rest of a value longer than needed to judge it."""

USER_AND_PASSWORD = SecretForm(
    ("-u", "--user", "--proxy-user"),
    lazy_pattern(
        r"""(?<![\w-])(?:(?:-[uU]|--user|--proxy-user)(?:["']?,?[^\S\n]{1,10}["']?|=["']?)|-u(?=\w))"""
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
"""A service's name as an option: followed by the name of a project, or by a key of its own."""
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
"""The forms that need no name: their groups `before` and `after` are not redacted."""
COLOURS = lazy_pattern(r"(?:\x1b|\\x1b|\\033|\\u001b|\\e|\x9b)\[[0-9;:]{0,40}[A-Za-z]", re.IGNORECASE)
COLOUR_HINTS = ("\x1b[", "\\x1b[", "\\033[", "\\u001b[", "\\e[", "\x9b[")
