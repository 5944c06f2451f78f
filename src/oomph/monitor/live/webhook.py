"""Posts findings to a web address that the user has given."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from oomph.redaction.redaction import redacted_data

_SECONDS = 10.0


class Webhook:
    """A web address that takes JSON. Its path is often a secret: messages name only the host.

    Raises ValueError if it is not an address of http or https.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("webhook must be an address that begins with https:// or http://")
        self._url, self.host = url, parts.hostname

    def post(self, document: dict[str, Any]) -> str:
        """Post a document without keys and passwords; returns what went wrong, or nothing."""
        request = urllib.request.Request(
            self._url, json.dumps(redacted_data(document), default=str).encode(), {"Content-Type": "application/json"}
        )
        try:
            with _opener().open(request, timeout=_SECONDS):
                return ""
        except urllib.error.HTTPError as error:
            error.close()
            return f"it answers {error.code}"
        except urllib.error.URLError as error:
            return str(error.reason)
        except (OSError, ValueError) as error:
            return type(error).__name__


def _opener() -> urllib.request.OpenerDirector:
    """Opens http and https only, and follows no redirection to somewhere else."""
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
