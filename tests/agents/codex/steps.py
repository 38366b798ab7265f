"""What the tests of Codex have in common."""

from __future__ import annotations

import json

from agor.protocol.api import Message
from tests.agents.site import Site, Trial
from tests.agents.subjects.base import Step

#: A model that uses tools by writing scripts, and that has sub-agents.
SCRIPTING = "gpt-6.1-sol"


def tool(name: str, **given: object) -> Step:
    """Make a step of the model: a call of one of Codex's own tools."""
    return {"tool": {"name": name, "input": given}}


def run_in_script(command: str) -> Step:
    """Make a step of a model that scripts: a script that runs a command."""
    call = f"await tools.exec_command({{cmd: {json.dumps(command)}}})"
    return {"tool": {"name": "exec", "input": f"const done = {call}; text(done.output)"}}


def uses(trial: Trial) -> list[Message]:
    """Find the tool calls of the last task."""
    return [block for block in trial.blocks(trial.tasks[-1]) if block.kind == "tool_use"]


def result_text(trial: Trial) -> str:
    """Find the one result of the last task."""
    (found,) = [b for b in trial.blocks(trial.tasks[-1]) if b.kind == "tool_result"]
    return found.text


def told_to_model(site: Site) -> str:
    """Give what the model was asked at last."""
    return site.model.requests[-1].body.decode()
