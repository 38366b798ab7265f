"""A session with a past: blocks of a hundred events each, as a task would have told them."""

import msgspec

from agor.daemon.main import Daemon
from agor.daemon.services.line import Entry, spelled
from agor.daemon.services.principal import Principal
from agor.daemon.store import messages
from agor.daemon.store.base import Statement
from agor.daemon.store.rows import MessageRow
from agor.protocol.api import NewSession
from agor.protocol.events import BlockComplete, BlockDelta, BlockStart

_TASK = "01a1e227-890b-702a-bc46-85ffcc56a09e"
_EVENTS = 100
_TEXT = "x" * 60
#: Blocks that are under way to the store at once.
_AT_ONCE = 200


async def write_past(daemon: Daemon, who: Principal, count: int) -> str:
    """Make a session and tell so many events in it; gives its id."""
    session = await daemon.sessions.create(who, NewSession(agentic_tool="scripted", workspace="/"))
    live = await daemon.lives.get(session.session_id)
    done = None
    for number in range(count // _EVENTS):
        done = live.channel.line.append(_block(live.row.number, number))
        if number % _AT_ONCE == 0:
            await done
    if done is not None:
        await done
    return session.session_id


def _block(session_number: int, number: int) -> Entry:
    block_id, deltas = f"{_TASK}-b{number}", _EVENTS - 2
    start = msgspec.json.encode(BlockStart(block_id=block_id, kind="text"))
    length = deltas * len(_TEXT)

    def statements(first: int) -> list[Statement]:
        row = MessageRow(
            session_number=session_number, sequence=first, last_sequence=first + _EVENTS - 1,
            block_id=block_id, task_id=_TASK, kind="text", start=start, status=None, reason=None,
            tool_input=None, length=length, is_error=False,
        )  # fmt: skip
        return [messages.start(row)]

    entry = Entry(patient=True, make_statements=statements)
    entry.add(spelled("block_start", _TASK, start, 1))
    for index in range(deltas):
        delta = msgspec.json.encode(BlockDelta(block_id, index, _TEXT))
        entry.add(spelled("block_delta", _TASK, delta, 1))
    complete = msgspec.json.encode(BlockComplete(block_id, deltas, length))
    entry.add(spelled("block_complete", _TASK, complete, 1))
    return entry
