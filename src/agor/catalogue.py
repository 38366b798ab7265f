"""The agents that agor knows by name: what each is, where it comes from, what it needs.

One table of plain data. `agor agent` installs and checks by it, executors find programs by it, and
the daemon gives keys by it. What is not here is reached as `acp:<command>`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

#: The variable that tells an executor where `agor agent install` puts programs.
AGENTS_FOLDER = "AGOR_AGENTS"


@dataclass(frozen=True, slots=True, kw_only=True)
class NpmPackage:
    """An agent that comes from the npm registry, in one version; see `installing/locks/`."""

    name: str
    version: str
    #: Where its program can be, below node_modules. There are several where the package has one for
    #: each kind of machine; the first that starts is the right one.
    programs: tuple[str, ...]
    #: The oldest Node that it runs on; None if it runs without.
    node: int | None
    #: What it takes of the disk, about.
    megabytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonPackage:
    """An agent that comes from the Python package index, into agor's own environment."""

    name: str
    version: str
    module: str
    #: Where its program is, in the folder of the module.
    program: str
    #: What it takes of the disk, about.
    megabytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownAgent:
    """One agent."""

    name: str
    title: str
    #: The name of its program, as people type it.
    program: str
    package: NpmPackage | PythonPackage
    #: The names of the keys that it may have, the usual one first.
    keys: tuple[str, ...]
    #: It may have keys of any other name, too: which one depends on the model.
    any_key: bool = False


_ALL = (
    KnownAgent(
        name="claude-code",
        title="Claude Code",
        program="claude",
        package=PythonPackage(
            name="claude-agent-sdk",
            version="0.2.182",
            module="claude_agent_sdk",
            program="_bundled/claude",
            megabytes=350,
        ),
        keys=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    ),
    KnownAgent(
        name="codex",
        title="Codex",
        program="codex",
        package=NpmPackage(
            name="@openai/codex",
            version="0.166.0",
            programs=(".bin/codex",),
            node=16,
            megabytes=440,
        ),
        keys=("OPENAI_API_KEY", "CODEX_API_KEY"),
    ),
    KnownAgent(
        name="gemini",
        title="Gemini CLI",
        program="gemini",
        package=NpmPackage(
            name="@google/gemini-cli",
            version="0.61.0",
            programs=(".bin/gemini",),
            node=20,
            megabytes=100,
        ),
        keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    ),
    KnownAgent(
        name="opencode",
        title="OpenCode",
        program="opencode",
        package=NpmPackage(
            name="opencode-ai",
            version="1.18.33",
            # Its own program is put in place by a script of the package. We run none, and take
            # what that script would choose from.
            programs=(
                "opencode-linux-x64/bin/opencode",
                "opencode-linux-x64-baseline/bin/opencode",
                "opencode-linux-arm64/bin/opencode",
                "opencode-linux-x64-musl/bin/opencode",
                "opencode-linux-x64-baseline-musl/bin/opencode",
                "opencode-linux-arm64-musl/bin/opencode",
            ),
            node=None,
            megabytes=360,
        ),
        keys=("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"),
        any_key=True,
    ),
)

CATALOGUE: Mapping[str, KnownAgent] = {agent.name: agent for agent in _ALL}
