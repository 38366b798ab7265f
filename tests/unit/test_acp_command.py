"""The names of agents that are commands, and the credentials in them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from agor.agents.acp.command import command_agent, parse
from agor.agents.registry import find_agent
from agor.errors import AgentMissing, InvalidParams
from agor.protocol.methods import GetApiKeyResult

KEYS = {"KEY": GetApiKeyResult(api_key="s3cret", base_url="http://x", credential_key="KEY")}


def test_a_name_is_split_as_a_shell_does_it() -> None:
    command = parse("acp:A=1 B='2 3' my-agent --flag 'two words' C=4")
    assert command.assignments == {"A": "1", "B": "2 3"}
    assert command.words == ("my-agent", "--flag", "two words", "C=4")


@pytest.mark.parametrize("name", ["acp:", "acp:  ", "acp:A=1", "acp:'", "acp:a\0b"])
def test_a_name_without_a_command_is_refused(name: str) -> None:
    with pytest.raises(InvalidParams):
        find_agent(name)


def test_credentials_are_put_where_they_are_named_and_nowhere_else() -> None:
    command = parse("acp:K=${KEY} T='Bearer ${KEY}' U=${KEY.base_url} P=$KEY E= x ${KEY}")
    assert command.credentials == ["KEY", "KEY", "KEY"]
    assert command.environment(KEYS) == {
        "K": "s3cret", "T": "Bearer s3cret", "U": "http://x", "P": "$KEY", "E": "",
    }  # fmt: skip
    assert command.words == ("x", "${KEY}")


def test_an_address_that_is_not_there_leaves_its_variable_out() -> None:
    keys = {"KEY": GetApiKeyResult(api_key="s3cret", credential_key="KEY")}
    assert parse("acp:K=${KEY} U=${KEY.base_url} x").environment(keys) == {"K": "s3cret"}


def test_nothing_secret_is_shown() -> None:
    launch = parse(f"acp:K=${{KEY}} {sys.executable}").launch("/", KEYS)
    assert launch.environment == {"K": "s3cret"}
    assert "s3cret" not in repr(launch)


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(AgentMissing, match="no-such-program"):
        parse("acp:no-such-program").launch("/")
    about = command_agent("acp:no-such-program").describe()
    assert (about.available, about.why_not) == (False, "no program 'no-such-program' here")


def test_agents_are_looked_up_without_the_half_second_that_the_protocol_takes() -> None:
    code = (
        "from agor.agents.registry import describe_agents, find_agent; import sys;"
        "describe_agents(); find_agent('acp:x'); assert not {'acp', 'pydantic'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
