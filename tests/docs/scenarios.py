"""What the test must know of the documents: what readers have, what stands in for what, what stays.

Everything else is run as it is printed.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping
from typing import NamedTuple

from tests.docs.examples import ROOT

# ── commands that cannot be run here ─────────────────────────────────────────────────────────
# Their words are checked all the same, against the parsers and the Makefile.

#: Lines of shell blocks, by a pattern that fits their beginning, and why they are not run.
NOT_RUN: Mapping[str, str] = {
    r"make (setup|demo|test|check|bench|chaos|fuzz|lock)\b": (
        "works on the whole checkout, for minutes; the demo has tests of its own"
    ),
    r"agor doctor --as anna --as ben": "needs Unix users; see tests/integration/impersonation",
}
#: Blocks that are no examples to run, by their document and first line, and why.
NOT_EXAMPLES: Mapping[tuple[str, str], str] = {
    ("README.md", "people ──► daemon"): "a drawing",
    ("docs/explanation/pool.md", "daemon ── launcher"): "a drawing",
    ("docs/how-to/back-up.md", "0 3 * * *"): "a line of a crontab",
    ("docs/how-to/run-as-other-users.md", "agord ALL="): "a line of sudoers",
    ("docs/how-to/share-a-daemon.md", "location /"): "configuration of nginx",
    ("docs/how-to/unix-users.md", "workspace: '/home/ben/shop'"): (
        "an error that takes two Unix users; see tests/integration/impersonation"
    ),
}

# ── commands that stay at work ───────────────────────────────────────────────────────────────

#: What a reader leaves running in another terminal, and what it shows once it is at work.
STAYS: Mapping[str, str] = {
    r"agor-executor --socket": "listening",
    r"agor model-server": "http://",
    r"curl -sN .*/events": "",
    r'"prompt":"\[\{\\"run\\":\[\\"sleep': "block_start",
}

# ── what stands in for what is not here ──────────────────────────────────────────────────────

#: Text of examples, and what is run in its place; {names} are values of the trial.
STAND_INS: Mapping[str, str] = {
    # The scripted model server in place of providers and gateways.
    r"https://gateway\.example\.com": "{model}",
    r"(agor credential set OPENAI_API_KEY)(?!.*--base-url)": r"\1 --base-url {model}/v1",
    r"(agor credential set (?:ANTHROPIC|GEMINI)\w+)(?!.*--base-url)": r"\1 --base-url {model}",
    r"(acp:ANTHROPIC_API_KEY=\$\{ANTHROPIC_API_KEY\}) ": (
        r"\1 ANTHROPIC_BASE_URL=${ANTHROPIC_API_KEY.base_url} "
    ),
    # The daemon itself in place of one at another address.
    r"https://agor\.example\.org": "$(jq -r .url ~/.agor/run/daemon.json)",
    # Ids of examples.
    r"(agor session \w+) 01a1e383-84a5": (
        r"\1 $(agor session list --json | jq -r '.[0].session_id[:13]')"
    ),
    r"(agor audit list .*--session) [0-9a-f-]{36}": (
        r"\1 $(agor session list --json | jq -r '.[0].session_id')"
    ),
    r"(agor rule revoke) [0-9a-f-]{36}": r"\1 $(agor rule list --json | jq -r '.[0].rule_id')",
    r"(agor terminal close) ID": r"\1 $(agor terminal list --json | jq -r '.[0].terminal_id')",
    # Folders that everybody shares, or that belong to somebody else.
    r"/tmp\b": "{tmp}",
    r"(?<![\w~])/(archive|backups|media)\b": r"{home}/\1",
    r"/home/anna/project": "{home}",
    # A Unix user that there is everywhere.
    r"--unix-user bea": "--unix-user nobody",
}

#: Programs of readers that are not ours; installing has a test of its own.
PROGRAMS: Mapping[str, str] = {
    # An answer that refuses is an example that fails.
    "curl": f'exec {shutil.which("curl")} --fail-with-body "$@"',
    "logger": 'test "$*" = "--server loghost --tag agor-audit" && grep -q .',
    "mail": "echo 'there is no reason to write a mail' >&2; exit 1",
    "pass": "echo sk-from-a-password-store",
    "pipx": 'test "$1" = install',
    "vault": 'test "$*" = "kv get -field=key secret/agor" && cat "$AGOR_HOME/master.key"',
    "my-agent": f"exec {sys.executable} {ROOT}/tests/agents/odd_acp_agent.py",
}


class Scenario(NamedTuple):
    """What a reader of a document has before its first example."""

    #: Agents that are run by it.
    agents: tuple[str, ...] = ()
    #: Which agent `agor run` takes.
    run_agent: str = "scripted"
    #: Commands that bring the reader here.
    prepare: str = "agor daemon start\n"


def _repository(path: str) -> str:
    """Make a repository with a commit, and with a change that is in none."""
    commit = "git -c user.name=reader -c user.email=reader@example.org commit -q -m first"
    return (
        f"git init -q -b main {path}; echo one > {path}/README; git -C {path} add README\n"
        f"git -C {path} {commit.removeprefix('git ')}; echo two > {path}/README\n"
    )


_DAEMON = "agor daemon start\n"
_SESSION = "agor run 'hello there'\n"
_EXECUTOR = "agor-executor --socket /tmp/executor.sock\n"

SCENARIOS: Mapping[str, Scenario] = {
    "README.md": Scenario(
        agents=("claude-code", "codex", "gemini"),
        run_agent="claude-code",
        # No daemon: the first command that needs one starts it.
        prepare=_repository("~/code/site"),
    ),
    "docs/how-to/audit.md": Scenario(
        prepare=f"{_DAEMON}{_SESSION}agor user add anna --no-password; mkdir -p /archive/2026\n"
    ),
    "docs/how-to/back-up.md": Scenario(
        prepare=f"{_DAEMON}{_SESSION}echo sk-any | agor credential set ANY_KEY\n"
        "mkdir -p /backups /media/safe\n"
    ),
    "docs/how-to/call-an-executor.md": Scenario(prepare=_EXECUTOR),
    "docs/how-to/install-agents.md": Scenario(
        agents=("claude-code", "codex", "gemini", "opencode"),
        prepare=f"{_DAEMON}for each in ANTHROPIC OPENAI GEMINI; do\n"
        "  echo sk-any | agor credential set ${each}_API_KEY\ndone\n",
    ),
    "docs/how-to/keep-credentials.md": Scenario(
        prepare=f"{_DAEMON}echo sk-from-a-file > key.txt\n"
    ),
    "docs/how-to/permission-rules.md": Scenario(prepare=_DAEMON + _repository("~/work/shop")),
    "docs/how-to/run-agents.md": Scenario(
        prepare=f"{_DAEMON}agor user add bea --no-password\n{_repository('~/work/shop')}"
    ),
    "docs/how-to/share-a-daemon.md": Scenario(
        prepare=f"{_DAEMON}{_SESSION}echo 'a password of ben' > ben.txt\n"
    ),
    "docs/how-to/test-with-a-scripted-model.md": Scenario(
        agents=("claude-code",), run_agent="claude-code"
    ),
    "docs/how-to/use-any-acp-agent.md": Scenario(agents=("acp:claude-agent-acp",)),
    "docs/how-to/use-claude.md": Scenario(agents=("claude-code",), run_agent="claude-code"),
    "docs/how-to/use-codex.md": Scenario(agents=("codex",)),
    "docs/how-to/use-gemini.md": Scenario(agents=("gemini",)),
    "docs/how-to/use-opencode.md": Scenario(agents=("opencode",)),
    "docs/how-to/use-terminals.md": Scenario(prepare=_DAEMON + _SESSION),
    "docs/how-to/work-in-worktrees.md": Scenario(prepare=_DAEMON + _repository("~/src/shop")),
    "docs/tutorial/first-session.md": Scenario(prepare=""),
}

#: Blocks that show what a command prints: their document and first line, and that command.
SHOWN: Mapping[tuple[str, str], str] = {
    ("docs/how-to/run-agents.md", "● Bash  npm install left-pad"): (
        """agor run --agent scripted '[{"tool": {"name": "Bash", "ask": true,"""
        """ "input": {"command": "npm install left-pad"}}}]'"""
    ),
    ("docs/reference/errors.md", '{"code": -32602'): (
        """echo '{"jsonrpc":"2.0","id":1,"method":"stop_task","params":{"session_token":"t"}}' |"""
        " agor-executor --stdio | jq -c .error"
    ),
}


def replaced(text: str, values: Mapping[str, str]) -> str:
    """Put the stand-ins into an example."""
    for pattern, stand_in in STAND_INS.items():
        text = re.sub(pattern, stand_in, text)
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text
