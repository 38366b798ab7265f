"""Any agent over ACP, tried with one that is not ours: Claude's adapter of the ACP project."""

from __future__ import annotations

import shlex

from tests.agents.subjects.base import Step, Subject
from tests.agents.subjects.claude import CLAUDE


def _run(command: str) -> Step:
    # It asks about no command that it knows to be harmless, and knows nothing of what a shell runs.
    return {"tool": {"name": "Bash", "input": {"command": f"sh -c {shlex.quote(command)}"}}}


ACP = Subject(
    agentic_tool=(
        "acp:ANTHROPIC_API_KEY=${ANTHROPIC_API_KEY} "
        "ANTHROPIC_BASE_URL=${ANTHROPIC_API_KEY.base_url} "
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 CLAUDE_CODE_MAX_RETRIES=2 "
        "CLAUDE_CODE_EAGER_FLUSH=1 claude-agent-acp"
    ),
    credential="ANTHROPIC_API_KEY",
    model="sonnet",
    other_model="haiku",
    write=CLAUDE.write,
    write_tool="Write",
    run=_run,
    run_tool="Bash",
    written_path=CLAUDE.written_path,
    call_mcp=CLAUDE.call_mcp,
    tells_reason=False,
    tells_cost=True,
    restores=False,
    program="claude-agent-acp",
)
