"""Where a repository may be cloned from. What runs a command, or carries a secret, is refused."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import urlsplit

from agor.errors import Unprocessable
from agor.protocol.validation import quoted

_LONGEST = 2048
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])"
_HTTPS = re.compile(rf"https://{_HOST}(?::[0-9]{{1,5}})?/[^?#]*")
_SSH = re.compile(rf"ssh://(?:[A-Za-z0-9_][A-Za-z0-9._-]*@)?{_HOST}(?::[0-9]{{1,5}})?/[^-?#].*")
#: user@host:path, as ssh has it.
_SCP = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9._-]*@{_HOST}:(?!-|:)[^?#]+")
_FILE = re.compile(r"(?:file://)?/.*")

_TAKEN = "Use https://HOST/PATH, ssh://USER@HOST/PATH, USER@HOST:PATH, or the absolute path of a "


class Address(NamedTuple):
    """An address that is safe to give to git, and the only protocol it may then use."""

    url: str
    protocol: str


def read_address(url: str) -> Address:
    """Take an address; raises `Unprocessable`, without showing what may be a secret."""
    if len(url) > _LONGEST or re.search(r"[\x00-\x20\x7f\\]", url) or not _is_text(url):
        raise Unprocessable(
            "url: this cannot be the address of a repository: it is too long, or has spaces or "
            "control characters in it"
        )
    if url.startswith("https:"):
        _refuse_secrets(url)
    for form, protocol in ((_HTTPS, "https"), (_SSH, "ssh"), (_SCP, "ssh"), (_FILE, "file")):
        if form.fullmatch(url) and "/../" not in f"{url}/":
            return Address(url, protocol)
    if url.startswith("ssh://"):
        _refuse_secrets(url)
    scheme = quoted(url.partition("://")[0][:20]) if "://" in url else "this"
    raise Unprocessable(
        f"url: {scheme} is no address that repositories are cloned from",
        hint=f"{_TAKEN}folder on this machine.",
    )


def _refuse_secrets(url: str) -> None:
    try:
        parts = urlsplit(url)
        secret = parts.password is not None or (parts.scheme == "https" and "@" in parts.netloc)
    except ValueError:
        secret = False
    else:
        secret = secret or bool(parts.query)
    if secret:
        raise Unprocessable(
            "url: it carries a name, a password or a token, which would be stored in the clear",
            hint="Leave it out, and let git find it: a credential helper, or an SSH key.",
        )


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
