"""What a daemon has after a long time: long sessions, long answers, many sessions."""

import asyncio

import msgspec

from agor.daemon.main import Daemon
from agor.daemon.services.line import Entry, spelled
from agor.daemon.services.principal import Principal
from agor.daemon.services.stamps import new_id
from agor.daemon.store import message_texts, messages, sessions
from agor.daemon.store.base import Statement, Write
from agor.daemon.store.rows import MessageRow, SessionRow
from agor.protocol.api import NewSession
from agor.protocol.events import BlockComplete, BlockDelta, BlockStart

_TASK = "01a1e227-890b-702a-bc46-85ffcc56a09e"
_EVENTS = 100
_TEXT = "x" * 60
#: Blocks that are under way to the store at once.
_AT_ONCE = 200
#: Seconds that compacting one answer may take.
_PATIENCE = 120.0
#: Numbers that no session made by the daemon has.
_FIRST_NUMBER = 1_000_000


async def write_past(daemon: Daemon, who: Principal, count: int) -> str:
    """Make a session with so many events, in blocks of a hundred; return its id."""
    session_id, number = await _new_session(daemon, who)
    line = (await daemon.lives.get(session_id)).channel.line
    done = None
    for place in range(count // _EVENTS):
        done = line.append(_block(number, f"b{place}", _EVENTS - 2, _TEXT))
        if place % _AT_ONCE == 0:
            await done
    if done is not None:
        await done
    return session_id


async def write_answer(daemon: Daemon, who: Principal, characters: int, deltas: int) -> str:
    """Make a session with one answer in so many deltas, and wait until it is compacted."""
    session_id, number = await _new_session(daemon, who)
    line = (await daemon.lives.get(session_id)).channel.line
    first = line.committed + 1
    await line.append(_block(number, "answer", deltas, "x" * (characters // deltas)))
    await daemon.conversations.page(who, session_id, None, 5)
    async with asyncio.timeout(_PATIENCE):
        while not await message_texts.sizes(daemon.store, number, [first]):  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.05)
    return session_id


async def write_sessions(daemon: Daemon, who: Principal, count: int) -> None:
    """Give a person so many more sessions."""
    rows = [
        SessionRow(
            session_id=new_id(), number=_FIRST_NUMBER + place, user_id=who.user_id, status="idle",
            agentic_tool="scripted", workspace="/", title=None, permission_mode="default",
            model=None, environment="local", agent_session_id=None, created_at=place,
            updated_at=place,
        )
        for place in range(count)
    ]  # fmt: skip
    await daemon.store.commit(Write([sessions.insert(row) for row in rows]))


async def _new_session(daemon: Daemon, who: Principal) -> tuple[str, int]:
    made = await daemon.sessions.create(who, NewSession(agentic_tool="scripted", workspace="/"))
    live = await daemon.lives.get(made.session_id)
    return made.session_id, live.row.number


def _block(session_number: int, name: str, deltas: int, text: str) -> Entry:
    block_id = f"{_TASK}-{name}"
    start = msgspec.json.encode(BlockStart(block_id=block_id, kind="text"))
    length = deltas * len(text)

    def statements(first: int) -> list[Statement]:
        row = MessageRow(
            session_number=session_number, sequence=first, last_sequence=first + deltas + 1,
            block_id=block_id, task_id=_TASK, kind="text", start=start, status=None, reason=None,
            tool_input=None, length=length, is_error=False,
        )  # fmt: skip
        return [messages.start(row)]

    entry = Entry(patient=True, make_statements=statements)
    entry.add(spelled("block_start", _TASK, start, 1))
    for index in range(deltas):
        delta = msgspec.json.encode(BlockDelta(block_id, index, text))
        entry.add(spelled("block_delta", _TASK, delta, 1))
    complete = msgspec.json.encode(BlockComplete(block_id, deltas, length))
    entry.add(spelled("block_complete", _TASK, complete, 1))
    return entry
