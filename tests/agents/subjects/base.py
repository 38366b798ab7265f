"""What the suite must know of an agent to speak to it through a scripted model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Step = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One agent: how the model makes it do things, and what it cannot do."""

    #: What a prompt calls it.
    agentic_tool: str
    #: The credential it is given, and what comes behind the model server's address.
    credential: str
    base_path: str = ""
    model: str
    #: A second one, for who changes the model.
    other_model: str
    #: A step of the model that writes a text to a file, and the tool that is then asked for.
    write: Callable[[Path, str], Step]
    write_tool: str
    #: A step of the model that runs a shell command, and the tool that is then asked for.
    run: Callable[[str], Step]
    run_tool: str
    #: Find the path in the input of a question about `write`.
    written_path: Callable[[dict[str, Any]], str]
    #: A step of the model that calls the tool of an MCP server: server, tool, input.
    call_mcp: Callable[[str, str, dict[str, Any]], Step]
    #: Change the input of a `write` to another text; none if the agent takes no other input.
    rewrite: Callable[[dict[str, Any], str], dict[str, Any]] | None = None
    #: Whether the model's thinking is told live, and whether the agent's own record keeps it.
    tells_thinking: bool = True
    keeps_thinking: bool = True
    #: Whether the agent's own record keeps the input of a call that was denied.
    keeps_denied_input: bool = True
    #: Whether the model goes on after a tool was denied, and whether it learns the reason.
    goes_on_after_deny: bool = True
    tells_reason: bool = True
    #: Whether its program stays between two prompts.
    stays: bool = True
    #: Whether it says itself that a turn is over which failed; else we end it, with its program.
    ends_failed_turns: bool = True
    #: Whether its program finds the key in its environment; else it is handed over unseen.
    key_in_environment: bool = True
    #: Whether it says what a turn has cost.
    tells_cost: bool = False
    #: Whether its record can be brought to where the conversation shall go on.
    restores: bool = True
    #: Faults that the agent itself meets with patience, beyond that of a test.
    patient_with: frozenset[str] = frozenset()
    #: Words of the process that is the agent, in its command line.
    program: str
