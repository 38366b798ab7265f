"""Whatever the line, the answer is the one that an independent reading of the standard expects."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agor.rpc import Peer, memory
from tests.contract.drawn_lines import lines
from tests.contract.oracle import Either, Expected, Wanted, expect
from tests.contract.raw_end import RawEnd, request
from tests.contract.service import Service

SETTINGS = settings(
    max_examples=500,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


class Conversation:
    """A peer and a raw end in a loop of their own, used by every example in turn."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._sentinels = 0
        self._raw = self._runner.run(self._join())

    async def _join(self) -> RawEnd:
        raw = RawEnd()
        self._peer = Peer(Service().routes)
        memory.join(self._peer, raw)
        return raw

    def answers_to(self, data: bytes) -> list[Any]:
        """Write bytes that end with a newline; return every line that comes back."""
        return self._runner.run(self._answers_to(data))

    async def _answers_to(self, data: bytes) -> list[Any]:
        self._sentinels += 1
        sentinel = f"sentinel {self._sentinels}"
        self._raw.write(data)
        self._raw.say(request(sentinel, "subtract", 2, 1))
        answers = []
        while not (isinstance(answer := await self._raw.hear(), dict) and answer["id"] == sentinel):
            answers.append(answer)
        return answers

    def close(self) -> None:
        self._runner.run(self._peer.close())
        self._runner.close()


@pytest.fixture
def conversation() -> Iterator[Conversation]:
    made = Conversation()
    yield made
    made.close()


def matches(expected: Expected, answers: list[Any]) -> bool:
    if isinstance(expected, Either):
        return matches(expected.one, answers) or matches(expected.other, answers)
    if expected is None:
        return answers == []
    if len(answers) != 1:
        return False
    if isinstance(expected, Wanted):
        return expected.fits(answers[0])
    if not isinstance(answers[0], list) or len(answers[0]) != len(expected):
        return False
    left = list(answers[0])
    for wanted in expected:
        # The order is free; ids that repeat make several fit, and any will do.
        fitting = next((one for one in left if wanted.fits(one)), None)
        if fitting is None:
            return False
        left.remove(fitting)
    return True


@SETTINGS
@given(line=lines)
@example(line=b"")
@example(line=b"\x0b")
@example(line=b"\x0c[]")
@example(line=b'{"jsonrpc":"2.0","method":"","id":1}')
@example(line=b'{"jsonrpc":"2.0","method":"subtract","params":[2,1],"id":1,"result":5}')
@example(line=b'[{"jsonrpc":"2.0","id":1,"result":5},{"jsonrpc":"2.0","method":"get_data","id":2}]')
@example(line=b'{"m\\u0065thod":"get_data","jsonrpc":"2.0","id":1}')
@example(line=b'{"jsonrpc":"2.0","method":"get_data","id":1,"x":1e999}')
@example(line=b'{"jsonrpc":"2.0","method":"get_data","id":1.0}')
def test_a_line_is_answered_as_the_oracle_says(conversation: Conversation, line: bytes):
    answers = conversation.answers_to(line + b"\n")
    expected = expect(line)
    assert matches(expected, answers), f"{line!r}: expected {expected}, got {json.dumps(answers)}"


@settings(SETTINGS, max_examples=150)
@given(several=st.lists(lines, max_size=8))
def test_lines_in_one_write_are_answered_like_lines_by_themselves(
    conversation: Conversation, several: list[bytes]
):
    alone = [answer for line in several for answer in conversation.answers_to(line + b"\n")]
    together = conversation.answers_to(b"".join(line + b"\n" for line in several))
    assert together == alone
