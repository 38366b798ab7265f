"""How a request ends without an answer, over every way in: cancelled, too late, too many."""

from __future__ import annotations

import asyncio

import pytest
import structlog
from msgspec import Struct

from agor.errors import Cancelled, Overloaded, TimedOut
from agor.protocol.validation import Method, Notice
from agor.rpc import Limits
from tests.contract.raw_end import notice, request
from tests.contract.service import NOTE, SUBTRACT, WAIT, Name, Nothing, Operands, Service, Text
from tests.contract.waiting import soon, turns, until
from tests.contract.ways import Way


class CancelParams(Struct):
    id: int


CANCEL = Notice("$/cancelRequest", CancelParams)


async def start(here, service: Service, name: str) -> asyncio.Task[str]:
    call = asyncio.create_task(here.call(WAIT, Name(name)))
    await soon(service.started[name].wait())
    return call


def begin_at_once(service: Service) -> dict[str, asyncio.Future[str]]:
    """Serve `begin`, which begins something at once; give what was begun, by its name."""
    begun: dict[str, asyncio.Future[str]] = {}

    def begin(params: Name) -> asyncio.Future[str]:
        return begun.setdefault(params.name, asyncio.get_running_loop().create_future())

    service.routes.on(Method("begin", Name, str), begin)
    return begun


async def test_a_caller_that_is_cancelled_cancels_the_handler(peers, service: Service):
    _, here = peers
    call = await start(here, service, "job")
    call.cancel()
    await soon(service.cancelled["job"].wait())
    with pytest.raises(asyncio.CancelledError):
        await call
    assert len(here._pending) == 0


async def test_cancelling_one_request_leaves_the_others_alone(peers, service: Service):
    _, here = peers
    kept, dropped = await start(here, service, "kept"), await start(here, service, "dropped")
    dropped.cancel()
    await soon(service.cancelled["dropped"].wait())
    service.open_gate("kept").set_result("done")
    assert await soon(kept) == "done"
    assert not service.cancelled["kept"].is_set()


async def test_a_request_that_takes_too_long_times_out_and_cancels_the_handler(
    peers, service: Service
):
    _, here = peers
    with pytest.raises(TimedOut, match="wait") as caught:
        await soon(here.call(WAIT, Name("long"), timeout=0.05))
    assert caught.value.rpc_code == -32005
    if service.started["long"].is_set():
        await soon(service.cancelled["long"].wait())
    assert len(here._pending) == 0
    assert await soon(here.call(SUBTRACT, Operands(2, 1))) == 1


async def test_an_answer_that_comes_too_late_is_nobody_elses(peers, service: Service):
    _, here = peers
    stubborn: Method[Nothing, str] = Method("stubborn", Nothing, str)
    cancelled, go_on = asyncio.Event(), asyncio.Event()

    async def handle(_: Nothing) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            await go_on.wait()
        return "too late"

    service.routes.on(stubborn, handle)
    late = asyncio.create_task(here.call(stubborn, Nothing(), timeout=0.05))
    await soon(cancelled.wait())
    with pytest.raises(TimedOut):
        await late
    next_call = await start(here, service, "next")
    go_on.set()
    service.open_gate("next").set_result("in time")
    assert await soon(next_call) == "in time"


async def test_the_last_word_on_a_cancelled_request_is_no_nonsense(peers, service: Service):
    _, here = peers
    with structlog.testing.capture_logs() as logs:
        call = await start(here, service, "job")
        call.cancel()
        await soon(service.cancelled["job"].wait())
        # The answer to the cancelled request has come by the time that this one's has.
        assert await soon(here.call(SUBTRACT, Operands(2, 1))) == 1
    assert [entry for entry in logs if entry["log_level"] == "warning"] == []


async def test_a_cancelled_request_is_answered_with_its_own_code(raw_ends, service: Service):
    _, raw = raw_ends
    raw.say(request("a", "wait", name="job"))
    await soon(service.started["job"].wait())
    answer = await raw.ask(notice("$/cancelRequest", id="a"))
    assert (answer["id"], answer["error"]["code"]) == ("a", -32006)
    assert service.cancelled["job"].is_set()


async def test_a_request_cancelled_before_it_began_is_answered_too(raw_ends, service: Service):
    _, raw = raw_ends
    # In one write: the handler has no turn of its own before it is cancelled.
    answer = await raw.ask(request(1, "wait", name="job"), notice("$/cancelRequest", id=1))
    assert (answer["id"], answer["error"]["code"]) == (1, -32006)
    assert not service.started["job"].is_set()


async def test_what_a_handler_has_begun_is_called_off_even_if_it_had_no_turn_since(
    raw_ends, service: Service
):
    _, raw = raw_ends
    begun = begin_at_once(service)
    answer = await raw.ask(request(1, "begin", name="job"), notice("$/cancelRequest", id=1))
    assert (answer["id"], answer["error"]["code"]) == (1, -32006)
    assert begun["job"].cancelled()


async def test_what_a_handler_has_begun_is_called_off_if_it_is_one_too_many(
    way: Way, service: Service
):
    begun = begin_at_once(service)
    async with way.raw(service.routes, Limits(max_in_flight=1)) as (_, raw):
        refused = await raw.ask(*(request(name, "begin", name=name) for name in "ab"))
        assert (refused["id"], refused["error"]["code"]) == ("b", -32001)
        assert begun["b"].cancelled()
        begun["a"].set_result("done")
        assert await raw.hear() == {"jsonrpc": "2.0", "id": "a", "result": "done"}


async def test_a_request_cancelled_while_it_waits_its_turn_is_never_carried_out(
    raw_ends, service: Service
):
    peer, raw = raw_ends
    # So many answers that what comes after them is left until they are read.
    raw.stop_reading()
    raw.say(*(request(number, "give", 120, 20_000) for number in range(200)))
    raw.say(request("job", "wait", name="job"), notice("$/cancelRequest", id="job"))
    await until(lambda: peer.congested)
    await turns(1000)
    raw.read_on()
    answers = {answer["id"]: answer for answer in [await raw.hear() for _ in range(201)]}
    assert answers["job"]["error"]["code"] == -32006
    assert service.started["job"].is_set() == service.cancelled["job"].is_set()


@pytest.mark.parametrize("params", [{"id": 99}, {"id": "1"}, {}, {"id": None}, {"id": []}, [], 7])
async def test_a_cancellation_of_nothing_cancels_nothing(
    raw_ends, service: Service, params: object
):
    _, raw = raw_ends
    raw.say(request(1, "wait", name="job"))
    await soon(service.started["job"].wait())
    raw.say({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": params})
    assert (await raw.ask(request(2, "subtract", 1, 1)))["result"] == 0
    service.open_gate("job").set_result("done")
    assert await raw.hear() == {"jsonrpc": "2.0", "id": 1, "result": "done"}


async def test_the_caller_of_a_handler_that_was_cancelled_hears_cancelled(peers, service: Service):
    _, here = peers
    call = await start(here, service, "job")
    here.notify(CANCEL, CancelParams(1))
    with pytest.raises(Cancelled):
        await soon(call)


async def test_requests_past_the_bound_are_refused_and_room_is_made_again(
    way: Way, service: Service
):
    async with way.raw(service.routes, Limits(max_in_flight=3)) as (_, raw):
        raw.say(*(request(number, "wait", name=str(number)) for number in range(4)))
        refused = await raw.hear()
        assert (refused["id"], refused["error"]["code"]) == (3, -32001)
        # What needs no waiting is served all the same.
        assert (await raw.ask(request(4, "subtract", 5, 1)))["result"] == 4
        service.open_gate("1").set_result("one")
        assert await raw.hear() == {"jsonrpc": "2.0", "id": 1, "result": "one"}
        raw.say(request(5, "wait", name="5"))
        await soon(service.started["5"].wait())
        assert not service.started["3"].is_set()


async def test_a_caller_past_the_bound_is_refused_without_bothering_the_other_end(
    way: Way, service: Service, own_service: Service
):
    limits = Limits(max_in_flight=2)
    async with way.peers(service.routes, own_service.routes, limits) as (_, here):
        calls = [await start(here, service, name) for name in "ab"]
        with pytest.raises(Overloaded) as caught:
            await soon(here.call(WAIT, Name("c")))
        assert caught.value.rpc_code == -32001
        for name in "ab":
            service.open_gate(name).set_result(name)
        assert await soon(asyncio.gather(*calls)) == ["a", "b"]
        here.notify(NOTE, Text("still there"))
        await until(lambda: service.notes)
        assert not service.started["c"].is_set()
