"""The settings that Gemini CLI gets from us, beside the person's own, which stay as they are.

They are given as those of the system, which go before all others. If the system has some, they are
kept below ours.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from agor.protocol.validation import UNREADABLE

#: The variable that names the file.
VARIABLE = "GEMINI_CLI_SYSTEM_SETTINGS_PATH"
_OF_THE_SYSTEM = Path("/etc/gemini-cli/settings.json")
_OURS: Mapping[str, Any] = {
    "security": {
        "auth": {"selectedType": "gemini-api-key"},
        "disableYoloMode": True,
        "enablePermanentToolApproval": False,
    },
    # A repository may bring settings along: none of them lets a tool run unasked.
    "tools": {"allowed": []},
    "mcp": {"allowed": [], "autoAllowInHeadless": False},
    "hooksConfig": {"enabled": False},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
}


def write_settings(folder: Path, tools: Sequence[str]) -> Path:
    """Write the settings that allow these tools, or all; the same ones have the same name."""
    ours = merged(_OURS, {"tools": {"core": list(tools)}} if tools else {})
    content = msgspec.json.encode(merged(_of_the_system(), ours))
    path = folder / f"settings-{hashlib.sha256(content).hexdigest()[:16]}.json"
    if not path.exists():
        path.write_bytes(content)
    return path


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Put settings on top of others, member by member."""
    result = dict(below)
    for name, value in above.items():
        under = result.get(name)
        both = isinstance(value, Mapping) and isinstance(under, Mapping)
        result[name] = merged(under, value) if both else value  # type: ignore[arg-type]
    return result


def _of_the_system() -> Mapping[str, Any]:
    try:
        found = msgspec.json.decode(_OF_THE_SYSTEM.read_bytes())
    except (OSError, *UNREADABLE):
        return {}
    return found if isinstance(found, dict) else {}
