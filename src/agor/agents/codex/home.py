"""The folder where Codex keeps what it keeps for agor, inside the person's own `~/.codex`.

The person's instructions, skills and settings hold in it, too. What lets commands run unasked does
not: rules, which Codex writes whenever somebody allows a command for good; and trust in
repositories, which may bring rules and settings. Nor do logins, or conversations of the person's.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from agor.errors import AgentFailed

_INSTRUCTIONS = ("AGENTS.md", "AGENTS.override.md")
_SETTINGS = "config.toml"
#: How the tools of MCP servers are used: even those that say they only read, for whose word that
#: is, nobody knows.
ASKING = "prompt"
#: Settings that are left out: which repositories are trusted, and programs that may allow things.
_NOT_OURS = frozenset({"projects", "hooks"})


def codex_home() -> Path:
    """Tell where the folder is."""
    return Path.home() / ".codex" / "agor"


def prepare_home() -> Path:
    """Make the folder, with all that is shared as it is now."""
    home = codex_home()
    (home / "skills").mkdir(mode=0o700, parents=True, exist_ok=True)
    own = home.parent
    for name in _INSTRUCTIONS:
        _link(own / name, home / name)
    for link in (home / "skills").iterdir():
        if link.is_symlink() and not link.exists():
            link.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        for skill in (own / "skills").iterdir():
            # Those with a dot Codex brings along itself.
            if not skill.name.startswith("."):
                _link(skill, home / "skills" / skill.name)
    _copy_settings(own / _SETTINGS, home / _SETTINGS)
    return home


def _link(source: Path, link: Path) -> None:
    if link.is_symlink() and not source.exists():
        link.unlink(missing_ok=True)
    elif source.exists() and not os.path.lexists(link):
        # Another session may be about to do the same.
        with contextlib.suppress(FileExistsError):
            link.symlink_to(source)


def _copy_settings(source: Path, copy: Path) -> None:
    try:
        settings = tomllib.loads(source.read_text(encoding="utf-8"))
    except FileNotFoundError:
        copy.unlink(missing_ok=True)
        return
    except (OSError, ValueError) as error:
        raise AgentFailed(
            f"codex's settings cannot be read: {source}: {error}",
            hint="Mend the file, or move it away.",
        ) from error
    _have_tools_asked_about(settings)
    lines = [f"{_toml(name)} = {_toml(settings[name])}\n" for name in settings.keys() - _NOT_OURS]
    handle, name = tempfile.mkstemp(dir=copy.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.writelines(sorted(lines))
    Path(name).rename(copy)


def _have_tools_asked_about(settings: dict[str, Any]) -> None:
    """Take back what the person has allowed to tool servers for good, and what those say."""
    servers = settings.get("mcp_servers")
    for server in servers.values() if isinstance(servers, dict) else ():
        if isinstance(server, dict):
            server["default_tools_approval_mode"] = ASKING
            tools = server.get("tools")
            for tool in tools.values() if isinstance(tools, dict) else ():
                if isinstance(tool, dict):
                    tool["approval_mode"] = ASKING


def _toml(value: Any) -> str:
    """Write a value as it may stand in a line of TOML."""
    if isinstance(value, str):
        # JSON escapes all that TOML wants to be escaped, but for one.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_toml(name)} = {_toml(each)}' for name, each in value.items())}}}"
    return str(value)  # Whole numbers, dates and times.
