"""Posts a JSON document to the user's web address: within the training process, or in a process of its own.

As a process, `python -m oomph.monitor.webhook` reads `{"url": ..., "document": ...}` from stdin, prints the error, if
there is one, and exits with 1. A supervisor starts it so that it never waits for an address that does not answer.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from oomph.redaction.redaction import redacted_data

if TYPE_CHECKING:
    from urllib.request import OpenerDirector

_POST_SECONDS = 10.0


class Webhook:
    """The user's web address, which accepts JSON. Its path is often secret, so messages include only the host.

    Raises ValueError if the address is not http or https, or could not be reached as it is written.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("webhook must be a URL that starts with https:// or http://")
        if parts.port == 0 or parts.username is not None:  # `port` itself raises ValueError for one above 65535
            raise ValueError("webhook must be a URL with a valid port and without a password")
        self.url, self.host = url, parts.hostname

    def post(self, document: dict[str, Any]) -> str:
        """Post a document, with keys and passwords redacted. Return the error, or an empty string if there is none."""
        import urllib.error
        import urllib.request  # late: `oomph run` need not wait for it

        data = json.dumps(redacted_data(document), default=str).encode()
        try:
            request = urllib.request.Request(self.url, data, {"Content-Type": "application/json"})
            with _opener().open(request, timeout=_POST_SECONDS):
                return ""
        except urllib.error.HTTPError as error:
            error.close()
            return f"it returned HTTP {error.code}"
        except urllib.error.URLError as error:
            return str(error.reason)
        except (OSError, ValueError) as error:
            return type(error).__name__


def _opener() -> OpenerDirector:
    """Return an opener that only supports http and https and does not follow redirects."""
    import urllib.request

    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener


def main() -> int:
    """Post the document on stdin, and return the exit code."""
    asked = json.load(sys.stdin)
    problem = Webhook(asked["url"]).post(asked["document"])
    print(problem)
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main())
