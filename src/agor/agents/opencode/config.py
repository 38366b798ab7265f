"""What OpenCode is told to be: laid over the person's own settings, in the program's environment.

The person's own settings (`~/.config/opencode`) stay in force: instructions, tool servers, plugins,
themes. Those of a project (`opencode.json`, `.opencode/`) are not read: whoever may change files of
a repository would decide what runs without a question, and where the key is sent. What a project
says to the model, its AGENTS.md, is no such thing, and is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from agor.agents.opencode.calls import EXPLORER
from agor.agents.opencode.models import provider_settings

#: The variable that names the file with the key.
KEY_FILE = "AGOR_PROVIDER_KEY_FILE"
VARIABLES = {
    "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    "OPENCODE_DISABLE_SHARE": "1",
}
#: What is asked about. The last rule that fits counts, and a rule of ours that the person's own
#: settings have as well would keep the place that it has there. So ours are spelled as nobody
#: spells them, and come after all others.
_ASKING = {
    "**": "ask",
    # The tool that goes there is asked about anyway; one question is enough. So with repetitions.
    "external_director?": "allow",
    "doom_loo?": "allow",
    # Over ACP, questions of sub-agents reach nobody: they would wait for ever. So there are none
    # but the one that only looks, and has no questions.
    "tas?": {"*": "deny", EXPLORER: "ask"},
}
#: What that one may do: what is not asked about anyway, see `calls`.
_EXPLORING = {
    "**": "deny",
    "rea?": {"*": "allow", "*.env": "deny", "*.env.*": "deny"},
    "glo?": "allow",
    "gre?": "allow",
    "lis?": "allow",
    "external_director?": "deny",
}
_INSTRUCTIONS = ("AGENTS.md", "CLAUDE.md")


def config_content(
    provider: str, base_url: str | None, models: Iterable[str], *, default: str, cwd: str
) -> str:
    """Make the settings, without any secret; `models` are those that OpenCode may not know."""
    settings = provider_settings(provider, base_url, f"{{file:{{env:{KEY_FILE}}}}}")
    agent = {"permission": _ASKING, "disable": False}
    content: dict[str, Any] = {
        "model": default,
        "small_model": default,
        "enabled_providers": [provider],
        "disabled_providers": [],
        "provider": {provider: settings | {"models": {name: {} for name in sorted(models)}}},
        "permission": _ASKING,
        # Nobody reads the title that it would have a model make.
        "agent": {
            "build": agent,
            "plan": agent,
            EXPLORER: {"permission": _EXPLORING, "disable": False},
            "title": {"disable": True},
        },
        "experimental": {"continue_loop_on_deny": True},
        "instructions": _instructions(Path(cwd)),
        "share": "disabled",
        "autoupdate": False,
        "snapshot": False,
    }
    return msgspec.json.encode(content).decode()


def _instructions(cwd: Path) -> list[str]:
    """Find what the workspace, up to the root of its repository, says to agents."""
    folders = [cwd, *cwd.parents]
    root = next((each for each in folders if (each / ".git").exists()), cwd)
    within = folders[: folders.index(root) + 1]
    for name in _INSTRUCTIONS:
        found = [str(each / name) for each in within if (each / name).is_file()]
        if found:
            # In braces, OpenCode would look for something to put in.
            return [path for path in found if "{" not in path]
    return []
