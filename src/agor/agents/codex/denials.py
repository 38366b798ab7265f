"""The message by which the model learns that a call was denied, and why.

Codex has no other place for the reason. The message is put into the turn ahead of the denial, so
that the model reads it right behind the call; and as Codex's record keeps the message, but not
always the call, it says all that is to be known of it.
"""

from __future__ import annotations

import msgspec

from agor.agents.codex.app_server import Json
from agor.agents.codex.items import Item, tool_input

#: What the message's own id begins with; it goes on with the call's.
_SENDER = "agor-denied:"
_SAID = "The user denied this call: "


class Denial(msgspec.Struct, frozen=True, omit_defaults=True):
    """A denied call and the reason; of a command, also what it was."""

    reason: str
    command: str | None = None
    cwd: str | None = None


def message_of(item: Item, reason: str) -> Json:
    """Make the message to the model: its id and its text."""
    what = tool_input(item) if item["type"] == "commandExecution" else {}
    denial = Denial(reason, what.get("command"), what.get("cwd"))
    text = _SAID + msgspec.json.encode(denial).decode()
    return {
        "clientUserMessageId": _SENDER + item["id"],
        "input": [{"type": "text", "text": text, "text_elements": []}],
    }


def denied_call(sender: str) -> str | None:
    """Find the id of the denied call in that of a message; none if it is another message."""
    return sender.removeprefix(_SENDER) if sender.startswith(_SENDER) else None


def read_denial(text: str) -> Denial:
    """Read the text of such a message."""
    try:
        return msgspec.json.decode(text.removeprefix(_SAID), type=Denial)
    except msgspec.DecodeError:
        return Denial(text)
