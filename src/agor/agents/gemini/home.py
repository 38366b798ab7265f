"""The home that Gemini CLI gets from us: its own settings, and the rest of the person's own.

It takes settings from files only, and those of the person must stay as they are. So it is given a
folder of ours as its home (`GEMINI_CLI_HOME`, which is the home of nothing else). What it keeps, it
keeps where it always does: that is linked.

A repository may bring along settings that go before these. A policy, which goes before all, sees to
it that none of them lets a tool change anything unasked.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

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


def brought_along(workspace: str) -> list[str]:
    """Name what a repository would have started without a question."""
    settings = read_settings(Path(workspace) / _FOLDER / "settings.json")
    return [name for name in ("hooks", "mcpServers") if settings.get(name)]


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
