"""The contract of agents: all that can happen in one conversation. Every agent passes it.

The tests share a conversation, since starting an agent takes longer than all of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from agor.protocol.api import Message
from agor.protocol.events import BlockDelta
from agor.protocol.methods import RequestPermissionParams, RequestPermissionResult
from tests.agents.needed import need_agent
from tests.agents.site import Site, Trial, site_of
from tests.agents.subjects import SUBJECTS
from tests.agents.subjects.base import Subject

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: All tests of an agent go where its conversation is.
_EACH = [
    pytest.param(name, marks=pytest.mark.xdist_group(f"one-{name}")) for name in sorted(SUBJECTS)
]


@pytest.fixture(scope="module", params=_EACH)
def subject(request: pytest.FixtureRequest) -> Subject:
    found = SUBJECTS[request.param]
    need_agent(found.agentic_tool)
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(subject: Subject) -> AsyncIterator[Trial]:
    async with site_of(subject) as site, site.connected() as trial:
        yield trial


@pytest.fixture
def trial(shared: Trial) -> Trial:
    """The conversation, in which nobody has asked anything yet."""
    shared.side.questions.clear()
    shared.side.decide = None
    return shared


@pytest.fixture
def site(trial: Trial) -> Site:
    return trial.site


def uses(trial: Trial) -> list[Message]:
    return [block for block in trial.blocks(trial.tasks[-1]) if block.kind == "tool_use"]


def results(trial: Trial) -> list[Message]:
    return [block for block in trial.blocks(trial.tasks[-1]) if block.kind == "tool_result"]


async def test_text_is_told_as_it_comes_and_the_turn_has_a_result(trial: Trial, site: Site):
    words = " ".join(f"word{number}" for number in range(40))
    result = await trial.prompt("say it", [{"text": words}])
    assert (result.status, result.error) == ("completed", None)
    assert trial.text() == words
    assert len(trial.side.of_kind(trial.tasks[-1], BlockDelta)) > 1
    assert all(block.complete for block in trial.blocks())
    assert result.agent_session_id
    assert result.token_usage.output > 0
    assert (result.cost is not None) == site.subject.tells_cost


async def test_thinking_is_told_apart_from_text(trial: Trial, site: Site):
    await trial.prompt("think", [{"thinking": "first a thought"}, {"text": "then a word"}])
    assert trial.text() == "then a word"
    if site.subject.tells_thinking:
        assert trial.text("thinking").strip() == "first a thought"


async def test_a_prompt_of_many_characters_and_odd_ones_arrives_whole(trial: Trial, site: Site):
    odd = "grüß Gott 👋 \u2028 \\n 'quotes' \"more\" " + "x" * 200_000
    assert (await trial.prompt(odd, [{"text": "ok"}])).status == "completed"
    assert any(b"x" * 200_000 in call.body for call in site.model.requests)


async def test_a_long_answer_arrives_whole(trial: Trial):
    words = "".join(f"{number:07d} " for number in range(12_500))
    await trial.prompt("much", [{"text": words}])
    assert trial.text() == words


async def test_a_file_is_written_once_somebody_says_yes(trial: Trial, site: Site):
    path = site.workspace / "new.txt"
    seen: list[bool] = []

    def allow(question: RequestPermissionParams) -> RequestPermissionResult:
        seen.append(path.exists())
        assert question.tool_name == site.subject.write_tool
        assert site.subject.written_path(question.tool_input) == str(path)
        return RequestPermissionResult(approved=True)

    trial.side.decide = allow
    result = await trial.prompt("write", [site.subject.write(path, "hello\n")], [{"text": "Done."}])
    assert (result.status, result.error) == ("completed", None)
    assert seen == [False]
    assert path.read_text().strip() == "hello"
    (use,) = uses(trial)
    assert (use.tool_name, use.status, use.is_error) == (
        site.subject.write_tool, "completed", False,
    )  # fmt: skip
    assert [each.tool_use_id for each in results(trial)] == [use.tool_use_id]
    assert trial.side.questions[0].tool_use_id == use.tool_use_id
    assert trial.text().endswith("Done.")


async def test_a_command_that_was_denied_does_not_run_and_the_reason_is_told(
    trial: Trial, site: Site
):
    path = site.workspace / "denied.txt"
    script = [site.subject.run(f"touch {path}")], [{"text": "Then not."}]
    trial.answer(approved=False, reason="not on a Friday")
    result = await trial.prompt("touch it", *script)
    assert result.status == "completed", result.error
    assert not path.exists()
    (use,) = uses(trial)
    assert (use.tool_name, use.status, use.reason) == (
        site.subject.run_tool, "denied", "not on a Friday",
    )  # fmt: skip
    if site.subject.goes_on_after_deny:
        assert trial.text().endswith("Then not.")
    if site.subject.tells_reason:
        assert any(b"not on a Friday" in call.body for call in site.model.requests)
    # The session goes on.
    assert (await trial.prompt("still there?", [{"text": "Yes."}])).status == "completed"
    assert trial.text() == "Yes."


async def test_what_a_command_prints_is_told_and_reaches_the_model(trial: Trial, site: Site):
    trial.answer(approved=True)
    script = [site.subject.run("printf it-is-%d 42")], [{"text": "I see."}]
    assert (await trial.prompt("run it", *script)).status == "completed"
    assert "it-is-42" in "".join(block.text for block in results(trial))
    assert any(b"it-is-42" in call.body for call in site.model.requests)


async def test_somebody_who_answers_can_change_what_is_written(trial: Trial, site: Site):
    rewrite = site.subject.rewrite
    if rewrite is None:
        pytest.skip(f"{site.subject.agentic_tool} takes no other input")
    path = site.workspace / "changed.txt"

    def decide(question: RequestPermissionParams) -> RequestPermissionResult:
        return RequestPermissionResult(
            approved=True, updated_input=rewrite(question.tool_input, "theirs\n")
        )

    trial.side.decide = decide
    await trial.prompt("write", [site.subject.write(path, "ours\n")], [{"text": "Done."}])
    assert path.read_text() == "theirs\n"
    (use,) = uses(trial)
    assert use.tool_input == rewrite(trial.side.questions[0].tool_input, "theirs\n")
