"""The contract of agents: which tools there are, and when. Every agent passes it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from agor.protocol.mcp import McpServer
from tests.agents.site import Site
from tests.agents.test_one_conversation import results, uses

_MCP_SERVER = Path(__file__).with_name("mcp_server.py")


async def test_a_prompt_that_names_its_tools_gets_no_other(site: Site):
    path = site.workspace / "not-allowed.txt"
    async with site.connected() as trial:
        trial.answer(approved=True)
        script = [site.subject.run(f"touch {path}")], [{"text": "Well."}]
        await trial.prompt("touch it", *script, tools=[site.subject.write_tool])
        assert not path.exists()
        assert trial.side.questions == []
        allowed = site.workspace / "allowed.txt"
        await trial.prompt(
            "write", [site.subject.write(allowed, "a\n")], [{"text": "Done."}],
            tools=[site.subject.write_tool],
        )  # fmt: skip
        assert allowed.exists()


async def test_who_only_plans_changes_nothing_whoever_says_yes(site: Site):
    path = site.workspace / "planned.txt"
    async with site.connected() as trial:
        trial.answer(approved=True)
        script = [site.subject.write(path, "a\n")], [{"text": "That is the plan."}]
        await trial.prompt("plan it", *script, permission_mode="plan")
        assert not path.exists()
        # And back: the mode is the prompt's own.
        await trial.prompt("now do it", [site.subject.write(path, "a\n")], [{"text": "Done."}])
        assert path.exists()


async def test_the_tool_of_an_mcp_server_is_used_with_its_credential_put_in(site: Site):
    server = McpServer(
        command=sys.executable, args=[str(_MCP_SERVER)], env={"GREETING": "${GREETING_KEY}"}
    )
    script = [site.subject.call_mcp("greeter", "greet", {"name": "Ada"})], [{"text": "Done."}]
    keys = {site.subject.credential: "sk-0123456789abcdef", "GREETING_KEY": "hello-from-the-vault"}
    async with site.connected(keys=keys) as trial:
        trial.answer(approved=True)
        servers: dict[str, Any] = {"greeter": server}
        result = await trial.prompt("greet her", *script, mcp_servers=servers)
        assert (result.status, result.error) == ("completed", None)
        (use,) = uses(trial)
        assert "greet" in (use.tool_name or "")
        assert use.status == "completed"
        told = "".join(block.text for block in results(trial))
        assert "hello-from-the-vault, Ada" in told
        assert len(trial.side.questions) == 1
