"""What OpenCode's log and record say about a provider that refuses."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agor.agents.opencode.faults import Faults, recorded_fault
from agor.protocol.events import Event, Log


def line(words: str, session: str = "ses_1", small: str = "false") -> bytes:
    return (
        f'timestamp=2026-11-16T09:02:05.480Z level=ERROR run=c2 message="stream error" '
        f"providerID=x modelID=m session.id={session} small={small} agent=build mode=primary "
        f'error.error="AI_APICallError: {words}"\n'
    ).encode()


class Told(list[str]):
    """What was told meanwhile."""

    async def tell(self, event: Event) -> None:
        assert isinstance(event, Log)
        self.append(event.message)


async def give_up(faults: Faults, told: Told) -> asyncio.Task[Any]:
    giving_up = asyncio.create_task(faults.give_up(told.tell))
    await asyncio.sleep(0)
    return giving_up


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_tries_are_told_until_one_too_many_fails():
    faults, told = Faults("ses_1", "KEY", lambda: 0), Told()
    giving_up = await give_up(faults, told)
    for _ in range(3):
        # A line may come in pieces.
        words = line("Overloaded")
        faults.hear(words[:50])
        faults.hear(words[50:])
        await settle()
        assert not giving_up.done()
    assert len(told) == 3
    faults.hear(line("Overloaded"))
    assert (await giving_up).code == "provider_overloaded"


async def test_what_no_try_can_mend_ends_the_turn_at_once():
    faults, told = Faults("ses_1", "KEY", lambda: 0), Told()
    giving_up = await give_up(faults, told)
    faults.hear(line("You exceeded your quota: insufficient_quota"))
    assert (await giving_up).code == "quota_exhausted"
    assert told == []


async def test_tries_of_others_and_of_before_the_model_spoke_do_not_count():
    said = 0
    faults, told = Faults("ses_1", "KEY", lambda: said), Told()
    giving_up = await give_up(faults, told)
    for _ in range(6):
        faults.hear(line("Overloaded", session="ses_2") + line("Overloaded", small="true"))
        faults.hear(line("Overloaded"))
        said += 1
        await settle()
    assert not giving_up.done()
    giving_up.cancel()


async def test_a_provider_that_asks_for_a_long_wait_is_not_waited_for():
    faults, told = Faults("ses_1", "KEY", lambda: 0, longest_wait=0.01), Told()
    giving_up = await give_up(faults, told)
    faults.hear(line("Rate limit reached"))
    assert (await giving_up).code == "rate_limited"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ({"name": "APIError", "data": {"message": "model: m", "statusCode": 404}}, "no_such_model"),
        ({"name": "APIError", "data": {"message": "no", "statusCode": 418}}, "provider_failed"),
        ({"name": "ContextOverflowError", "data": {"message": "too long"}}, "context_full"),
        ({"name": "ProviderAuthError", "data": {"message": "no"}}, "bad_api_key"),
        # It has no address for a provider that it does not know.
        (
            {"name": "UnknownError", "data": {"message": '"undefined/chat" is no URL.'}},
            "no_such_model",
        ),
    ],
)
def test_the_error_in_the_record_says_what_it_was(error: dict[str, Any], code: str):
    fault = recorded_fault(error, "KEY")
    assert fault is not None
    assert fault.code == code


@pytest.mark.parametrize("error", [None, {}, {"name": "UnknownError", "data": {"message": "x"}}])
def test_other_errors_are_not_the_providers(error: dict[str, Any] | None):
    assert recorded_fault(error, "KEY") is None
