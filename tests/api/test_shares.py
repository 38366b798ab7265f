"""Sessions that are shared, and access that ends: at once, also for what is open already."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from agor.daemon.main import Daemon
from tests.api.feeds import Follow, SseEnded, followers, publish, sse, take, websocket
from tests.api.serving import serving
from tests.api.world import ASKING, Person, World, peopled
from tests.contract.waiting import PATIENCE, soon, until


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with peopled(tmp_path) as one:
        yield one


async def titles(world: World, who: Person, query: str = "") -> set[str]:
    found = await world.ask(who, "GET", f"/sessions{query}")
    return {each["session_id"] for each in found["items"]}


async def test_a_session_is_nobody_elses_until_it_is_shared(world: World):
    ann, bob = await world.person(), await world.person()
    session = await world.session(ann)
    assert (await world.send("GET", f"/sessions/{session}", headers=bob.headers)).status_code == 404
    await world.share(ann, session, bob, "view")
    assert (await world.ask(bob, "GET", f"/sessions/{session}"))["user_id"] == ann.user_id
    assert await world.ask(bob, "GET", f"/sessions/{session}/messages")
    prompt = {"prompt": "hello"}
    refused = await world.send("POST", f"/sessions/{session}/prompt", prompt, bob.headers)
    assert refused.status_code == 403
    assert "session.prompt" in refused.json()["detail"]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/tasks/{task}", None),
        ("PATCH", "/tasks/{task}", {"queue_position": 1}),
        ("POST", "/tasks/{task}/stop", {}),
        ("GET", "/permissions/{permission}", None),
        ("POST", "/permissions/{permission}/decision", {"approved": True}),
    ],
)
async def test_what_is_hidden_is_missed_in_the_same_words_as_what_never_was(
    world: World, method: str, path: str, body: dict[str, object] | None
):
    ann, bob = await world.person(), await world.person()
    permission = await world.permission(ann, await world.session(ann))
    task = (await world.ask(ann, "GET", f"/permissions/{permission}"))["task_id"]
    told = []
    for ids in ({"task": task, "permission": permission}, {"task": "x", "permission": "x"}):
        refused = await world.send(method, path.format(**ids), body, bob.headers)
        said = refused.text
        for each in ids.values():
            said = said.replace(f"'{each}'", "ID").replace(f'\\"{each}\\"', "ID")
        told.append((refused.status_code, said))
    assert told[0] == told[1]
    assert told[0][0] == 404


async def test_a_guest_prompts_in_the_owners_name_and_is_named(world: World):
    ann, bob = await world.person(), await world.person()
    session = await world.session(ann)
    await world.share(ann, session, bob, "prompt")
    task = await world.ask(bob, "POST", f"/sessions/{session}/prompt", {"prompt": "hello"})
    await world.served.finished(task["task_id"])
    shown = await world.ask(ann, "GET", f"/tasks/{task['task_id']}")
    assert (shown["status"], shown["user_id"]) == ("completed", bob.user_id)


async def test_a_guest_cannot_loosen_what_the_owner_decided(world: World):
    ann, bob = await world.person(), await world.person()
    session = await world.session(ann)
    await world.share(ann, session, bob, "prompt")
    path = f"/sessions/{session}/prompt"
    loose = {"prompt": ASKING, "permission_mode": "bypassPermissions"}
    refused = await world.send("POST", path, loose, bob.headers)
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert (await world.ask(ann, "GET", f"/sessions/{session}/tasks"))["items"] == []
    asked = await world.permission(bob, session)
    answer = f"/permissions/{asked}/decision"
    refused = await world.send("POST", answer, {"approved": True}, bob.headers)
    assert refused.status_code == 403
    assert (await world.ask(ann, "POST", answer, {"approved": True}))["decided_by"] == ann.user_id


async def test_lists_give_what_one_may_view(world: World):
    ann, bob, boss = await world.person(), await world.person(), await world.person("admin")
    own, shared, hidden = [await world.session(who) for who in (bob, ann, ann)]
    await world.share(ann, shared, bob, "view")
    await world.permission(ann, shared)
    await world.permission(ann, hidden)
    assert await titles(world, bob) == {own, shared}
    assert await titles(world, bob, "?whose=mine") == {own}
    assert await titles(world, bob, "?whose=shared") == {shared}
    assert await titles(world, bob, "?whose=all") == {own, shared}
    assert await titles(world, boss) == set()
    assert await titles(world, boss, "?whose=all") == {own, shared, hidden}
    for who, query, seen in ((bob, "", {shared}), (boss, "?whose=all", {shared, hidden})):
        found = await world.ask(who, "GET", f"/permissions{query}")
        assert {each["session_id"] for each in found["items"]} == seen
    executors = await world.ask(bob, "GET", "/executors")
    assert executors["items"] == [], "those of others' sessions are not for members"


async def test_whom_a_session_is_shared_with_is_told_and_can_be_changed(world: World):
    ann, bob = await world.person(), await world.person()
    session = await world.session(ann)
    for access in ("view", "prompt"):
        path = f"/sessions/{session}/shares/{bob.user_id}"
        made = await world.ask(ann, "PUT", path, {"access": access})
        assert (made["name"], made["access"]) == (bob.name, access)
        listed = (await world.ask(bob, "GET", f"/sessions/{session}/shares"))["items"]
        assert listed == [made]
    for user_id, status in ((ann.user_id, 422), ("nobody", 404)):
        path = f"/sessions/{session}/shares/{user_id}"
        refused = await world.send("PUT", path, {"access": "view"}, ann.headers)
        assert refused.status_code == status


async def ended(feed: Follow) -> int:
    """Wait for the end of a feed, and tell its code; 0 if it has none."""
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                await feed.event()
    except ConnectionClosed as closed:
        return closed.rcvd.code if closed.rcvd is not None else -1
    except SseEnded:
        return 0


async def test_a_share_that_is_taken_back_ends_the_feeds_that_it_opened(world: World):
    served = world.served
    ann, bob = await world.person(), await world.person()
    session, other = await world.session(ann), await world.session(ann)
    for each in (session, other):
        await world.share(ann, each, bob, "view")
    async with (
        websocket(served, session, additional_headers=bob.headers) as feed,
        websocket(served, other, additional_headers=bob.headers) as kept,
        websocket(served, session, additional_headers=ann.headers) as owners,
    ):
        await world.ask(ann, "DELETE", f"/sessions/{session}/shares/{bob.user_id}")
        assert await ended(feed) == 4403
        for each, reader in ((session, owners), (other, kept)):
            last = await publish(served, each, 3)
            assert [event["sequence"] for event in await take(reader, last)][-1] == last
    with pytest.raises(InvalidStatus) as refused:
        async with websocket(served, session, additional_headers=bob.headers):
            pass
    assert refused.value.response.status_code == 404


async def test_a_feed_over_sse_ends_as_well(world: World):
    ann = await world.person()
    session = await world.session(ann)
    hers = dataclasses.replace(world.served, token=ann.token)
    async with sse(hers, session) as feed:
        await feed.event()
        await world.ask(None, "PATCH", f"/users/{ann.user_id}", {"disabled": True})
        assert await ended(feed) == 0
    await until(lambda: followers(world.served, "sse") == 0)


async def test_a_token_that_is_revoked_ends_what_it_opened_and_nothing_else(world: World):
    served = world.served
    ann = await world.person()
    session = await world.session(ann)
    made = await world.ask(ann, "POST", "/tokens", {"name": "another"})
    second = Person(ann.user_id, ann.name, made["token"])
    async with (
        websocket(served, session, additional_headers=ann.headers) as kept,
        websocket(served, session, additional_headers=second.headers) as feed,
    ):
        await world.ask(ann, "DELETE", f"/tokens/{made['token_id']}")
        assert await ended(feed) == 4403
        last = await publish(served, session, 1)
        assert (await take(kept, last))[-1]["sequence"] == last


async def test_a_prompt_that_nobody_stopped_is_not_run_for_who_may_not_prompt_any_more(
    world: World,
):
    # What takes the share back stops it, unless its turn comes first.
    world.served.daemon.shares.on_less.clear()
    ann, bob = await world.person(), await world.person()
    session = await world.session(ann)
    await world.share(ann, session, bob, "prompt")
    before = await world.task(ann, session)
    waiting = await world.ask(bob, "POST", f"/sessions/{session}/prompt", {"prompt": "hello"})
    own = await world.ask(ann, "POST", f"/sessions/{session}/prompt", {"prompt": "hello"})
    await world.share(ann, session, bob, "view")
    await world.ask(ann, "POST", f"/tasks/{before}/stop", {})
    task = await world.served.finished(waiting["task_id"])
    assert (task["status"], task["error"]["code"]) == ("failed", "forbidden")
    assert bob.name in task["error"]["message"]
    assert (await world.served.finished(own["task_id"]))["status"] == "completed"


def executors_of(daemon: Daemon, who: Person) -> int:
    return sum(each.user_id == who.user_id for each in daemon.executors.describe())


async def test_somebody_who_is_disabled_has_nothing_under_way_any_more(world: World):
    served = world.served
    ann, bob = await world.person(), await world.person()
    session, idle, bobs = [await world.session(who) for who in (ann, ann, bob)]
    warm = await world.ask(ann, "POST", f"/sessions/{idle}/prompt", {"prompt": "hello"})
    await served.finished(warm["task_id"])
    waiting = await world.waiting_task(ann, session)
    await world.share(bob, bobs, ann, "prompt")
    guest = await world.task(ann, bobs)
    untouched = await world.ask(bob, "POST", f"/sessions/{bobs}/prompt", {"prompt": "hello"})
    async with websocket(served, session, additional_headers=ann.headers) as feed:
        await world.ask(None, "PATCH", f"/users/{ann.user_id}", {"disabled": True})
        assert await ended(feed) == 4403
    assert (await world.send("GET", "/sessions", headers=ann.headers)).status_code == 401
    for task_id in (waiting, guest):
        task = await served.finished(task_id)
        assert (task["status"], "is disabled" in task["error"]["message"]) == ("stopped", True)
    await until(lambda: executors_of(served.daemon, ann) == 0)
    assert (await served.finished(untouched["task_id"]))["status"] == "completed"


async def test_what_was_left_of_somebody_disabled_ends_when_the_daemon_comes_back(tmp_path: Path):
    """As if it had been killed between the two."""
    async with peopled(tmp_path) as world:
        ann = await world.person()
        session = await world.session(ann)
        world.served.daemon.people.on_change.clear()
        task_id = await world.waiting_task(ann, session)
        await world.ask(None, "PATCH", f"/users/{ann.user_id}", {"disabled": True})
    async with serving(tmp_path) as served:
        task = await soon(served.finished(task_id))
        assert task["status"] in ("stopped", "failed")
        assert "is disabled" in task["error"]["message"]
        assert executors_of(served.daemon, ann) == 0


async def test_another_unix_user_does_not_go_on_in_the_executors_of_the_old_one(world: World):
    ann = await world.person()
    session = await world.session(ann)
    task = await world.ask(ann, "POST", f"/sessions/{session}/prompt", {"prompt": "hello"})
    await world.served.finished(task["task_id"])
    assert executors_of(world.served.daemon, ann) == 1
    change = {"unix_username": "nobody"}
    await world.ask(None, "PATCH", f"/users/{ann.user_id}", change)
    await until(lambda: executors_of(world.served.daemon, ann) == 0)
