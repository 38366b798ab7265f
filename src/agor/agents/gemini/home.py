"""The home that Gemini CLI gets from us: its own settings, and the rest of the person's own.

It takes settings from files only, and those of the person must stay as they are. So it is given a
folder of ours as its home (`GEMINI_CLI_HOME`, which is the home of nothing else). What it keeps, it
keeps where it always does: that is linked.

A repository may bring along settings that go before these. A policy, which goes before all, sees to
it that none of them lets a tool change anything unasked, and only tool servers of the session are
started.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from agor.errors import AgentFailed
from agor.protocol.validation import UNREADABLE

VARIABLE = "GEMINI_CLI_HOME"
_FOLDER = ".gemini"
#: What it keeps: always linked, so that it is made where the person has it.
_KEPT = ("tmp", "history")
#: What a person may have there.
_OWN = ("GEMINI.md", "agents", "commands", "extensions", "policies", "skills")
_SETTINGS: Mapping[str, Any] = {
    "security": {
        "auth": {"selectedType": "gemini-api-key"},
        "disableYoloMode": True,
        "enablePermanentToolApproval": False,
    },
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
    "tools": {"allowed": []},
    "hooksConfig": {"enabled": False},
}
_POLICY = """
[[rule]]
toolName = [
  "run_shell_command", "write_file", "replace", "web_fetch", "save_memory", "activate_skill",
]
decision = "ask_user"
priority = 900
modes = ["default", "autoEdit", "yolo"]

[[rule]]
toolName = "*"
mcpName = "*"
decision = "ask_user"
priority = 900
modes = ["default", "autoEdit", "yolo"]
"""


def make_home(folder: Path, tools: Sequence[str]) -> Path:
    """Make a home that allows these tools, or all; the same one has the same name."""
    own = Path.home() / _FOLDER
    ours = merged(_SETTINGS, {"tools": {"core": list(tools)}} if tools else {})
    settings = msgspec.json.encode(merged(read_settings(own / "settings.json"), ours))
    home = folder / hashlib.sha256(settings).hexdigest()[:16]
    if not home.exists():
        inside = home / _FOLDER
        inside.mkdir(parents=True)
        for name in _KEPT:
            (own / name).mkdir(parents=True, exist_ok=True)
        for name in (*_KEPT, *_OWN):
            (inside / name).symlink_to(own / name)
        (inside / "settings.json").write_bytes(settings)
    return home


def write_policy(folder: Path) -> Path:
    """Write the policy by which it asks."""
    path = folder / "asking.toml"
    path.write_text(_POLICY)
    return path


def check_workspace(workspace: str) -> None:
    """Refuse a repository that turns hooks on: they are commands that nobody is asked about."""
    path = Path(workspace) / _FOLDER / "settings.json"
    try:
        content = path.read_bytes()
    except OSError:
        return
    settings = read_settings(path)
    # With comments in it we cannot read it, but Gemini CLI can; a letter may be written as \u0061.
    turned_on = "hooksConfig" in settings if settings else re.search(rb"hooksConfig|\\u", content)
    if turned_on:
        raise AgentFailed(
            f"{path} turns hooks on, and Gemini CLI would run their commands without a question",
            hint="Remove hooksConfig from it.",
        )


def read_settings(path: Path) -> Mapping[str, Any]:
    """Read settings, if there are any that can be read."""
    with contextlib.suppress(OSError, *UNREADABLE):
        found = msgspec.json.decode(path.read_bytes())
        if isinstance(found, dict):
            return found
    return {}


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Put settings on top of others, member by member."""
    result = dict(below)
    for name, value in above.items():
        under = result.get(name)
        if isinstance(value, Mapping) and isinstance(under, Mapping):
            result[name] = merged(under, value)
        else:
            result[name] = value
    return result
