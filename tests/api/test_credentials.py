"""Credentials over HTTP: values go in and never come out, whatever is asked and however wrongly."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog

from agor import logs
from agor.leaks import Seeker
from agor.protocol.credentials import NewCredential
from tests.api.serving import Served, serving

SECRET = "sk-ant-canary-5d41402abc4b2a76b9719d911017c592-WXYZ"
KEY = "/credentials/ANTHROPIC_API_KEY"


async def put(served: Served, path: str = KEY, **members: Any) -> httpx.Response:
    return await served.ask.put(path, json={"value": SECRET, **members})


async def listed(served: Served) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await served.ask.get("/credentials")).json()["items"]
    return found


async def test_a_credential_is_kept_shown_without_its_value_and_deleted(served: Served):
    assert await listed(served) == []
    kept = await put(served, base_url="https://llm.example.com/v1", agents=["claude-code"])
    assert kept.status_code == 200, kept.text
    shown = kept.json()
    assert shown == {
        "name": "ANTHROPIC_API_KEY", "whose": "own", "set_by": served.who.name,
        "last_four": "WXYZ", "base_url": "https://llm.example.com/v1", "agents": ["claude-code"],
        "created_at": shown["created_at"], "updated_at": shown["created_at"],
        "last_used_at": None,
    }  # fmt: skip
    assert await listed(served) == [shown]
    assert (await served.ask.delete(KEY)).status_code == 204
    assert (await served.ask.delete(KEY)).status_code == 404
    assert await listed(served) == []


async def test_all_of_it_is_replaced(served: Served):
    first = (await put(served, base_url="https://a.example.com", agents=["claude-code"])).json()
    second = (await put(served, value="another-value-1234")).json()
    assert second["created_at"] == first["created_at"]
    assert (second["last_four"], second["base_url"], second["agents"]) == ("1234", None, None)
    assert len(await listed(served)) == 1


@pytest.mark.parametrize("value", ["1", "abcd", "short-value"])
async def test_of_a_short_value_nothing_is_shown(served: Served, value: str):
    assert (await put(served, value=value)).json()["last_four"] == ""


async def test_the_teams_is_another_one(served: Served):
    await put(served)
    kept = await put(served, f"{KEY}?team=true", value="the-teams-own-value")
    assert kept.json()["whose"] == "team"
    assert [each["whose"] for each in await listed(served)] == ["own", "team"]
    assert (await served.ask.delete(f"{KEY}?team=true")).status_code == 204
    assert [each["whose"] for each in await listed(served)] == ["own"]


@pytest.mark.parametrize(
    "name", ["A", "_", "a" * 128, "x1", "GEMINI_API_KEY", "my_own_Key9"]
)  # fmt: skip
async def test_these_are_names(served: Served, name: str):
    assert (await put(served, f"/credentials/{name}")).status_code == 200
    assert (await served.ask.delete(f"/credentials/{name}")).status_code == 204


@pytest.mark.parametrize("name", ["1A", "A-B", "-", "9"])
async def test_these_are_none(served: Served, name: str):
    answer = await put(served, f"/credentials/{name}")
    assert answer.status_code == 422
    assert "no digit first" in answer.json()["hint"]


@pytest.mark.parametrize("name", ["a" * 129, "A.B", "A%20B", "A%00", "%C3%A4", ".."])
async def test_what_no_path_can_name_is_not_there(served: Served, name: str):
    assert (await put(served, f"/credentials/{name}")).status_code in (404, 405)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("", "length >= 1"),
        ("x" * 16385, "length <= 16384"),
        ("ü" * 8193, "1 to 16384 bytes"),
        (" x", "white space"),
        ("x ", "white space"),
        ("x\n", "white space"),
        ("x\u00a0", "white space"),
        ("a\nb", "line break"),
        ("a\rb", "line break"),
        ("a\x00b", "line break or another control"),
        ("a\x1bb", "control"),
    ],
)
async def test_these_are_no_values(served: Served, value: str, said: str):
    answer = await put(served, value=value)
    assert answer.status_code == 422
    assert said in answer.json()["detail"]


async def test_the_longest_value_is_taken_and_given(served: Served):
    value = "v" * 16380 + "LAST"
    assert (await put(served, value=value)).json()["last_four"] == "LAST"
    session = await served.new_session()
    task = await served.prompt(session, '[{"key": "ANTHROPIC_API_KEY"}]')
    assert (await served.finished(task))["status"] == "completed"


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com", "example.com", "https://", "https://user:pw@example.com",
        "https://user@example.com", "https://example.com/#x", "https://example.com/?key=x",
        "https://exa mple.com", "https://example.com:x", "javascript:alert(1)", "//example.com",
        "https://ex\u00e4mple.com", "http://[::1", "https://example.com/\x1b", "x" * 3000,
    ],
)  # fmt: skip
async def test_these_are_no_base_urls(served: Served, url: str):
    answer = await put(served, base_url=url)
    assert answer.status_code == 422
    assert "base_url" in answer.json()["detail"]


@pytest.mark.parametrize("url", ["http://127.0.0.1:8080", "https://a.b/v1/", "http://[::1]:1/x"])
async def test_these_are_base_urls(served: Served, url: str):
    assert (await put(served, base_url=url)).json()["base_url"] == url


@pytest.mark.parametrize("agents", [[], ["claude"], ["acp:"], ["codex"], ["claude-code", "gemini"]])
async def test_agents_that_are_none_or_never_get_it_are_refused(served: Served, agents: list[str]):
    answer = await put(served, agents=agents)
    assert answer.status_code == 422
    assert "agents" in answer.json()["detail"]


async def test_nobody_keeps_more_than_there_is_use_for(
    served: Served, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("agor.daemon.services.credentials.credentials.MOST", 2)
    for name in ("A", "B", "A"):
        assert (await put(served, f"/credentials/{name}")).status_code == 200
    answer = await put(served, "/credentials/C")
    assert answer.status_code == 409
    assert (await put(served, "/credentials/C?team=true")).status_code == 200


# ── nothing is ever repeated ─────────────────────────────────────────────────────────────────

S = SECRET
WRONG: list[Any] = [
    {"value": [S]}, {"value": {S: S}}, {"value": 5, "x": S}, {"value": "x", S: 1}, {S: "x"},
    {"value": f"{S}\n"}, {"value": f" {S}"}, {"value": f"{S}\x00"}, {"value": S * 400},
    {"value": S, "base_url": S}, {"value": S, "base_url": f"https://{S}@x.example"},
    {"value": S, "base_url": f"https://x.example/?{S}"}, {"value": S, "base_url": [S]},
    {"value": S, "agents": S}, {"value": S, "agents": [S]}, {"value": S, "agents": {S: S}},
    {"value": S, "agents": [[S]]}, [S], S, {"value": None, "base_url": S}, {"VALUE": S},
]  # fmt: skip
RAW = [
    f'{{"value": {S}}}', f'{{"value": "{S}', f'{{"value": "{S}\\ud800"}}', f'{{"value": "{S}\\x"}}',
    f"value={S}", f'{{"value": "{S}", "value": "{S}\\n"}}', f'{{"{S}"', f'{{"value": "{S}"}} {S}',
]  # fmt: skip
BYTES = [each.encode() for each in (*map(json.dumps, WRONG), *RAW)]
BYTES += [b'{"value": "' + S.encode() + b'\xff"}', b"\xef\xbb\xbf" + S.encode(), b"[" * 5000]


@pytest.mark.parametrize("body", BYTES, ids=range(len(BYTES)))
async def test_a_body_that_is_refused_is_not_repeated(
    served: Served, body: bytes, capfd: pytest.CaptureFixture[str]
):
    seeker = Seeker(SECRET)
    for media in ("application/json", "text/plain", "application/x-www-form-urlencoded"):
        answer = await served.ask.put(KEY, content=body, headers={"content-type": media})
        assert answer.status_code in (415, 422), answer.text
        seeker.look_at(media, answer.content + repr(answer.headers.raw).encode())
    told = capfd.readouterr()
    seeker.look_at("the log", (told.out + told.err).encode())
    assert seeker.leaks == []


@pytest.fixture(params=["console", "json"])
def logging(request: pytest.FixtureRequest) -> Iterator[None]:
    """Log as a daemon does."""
    logs.configure("debug", request.param)
    structlog.configure(cache_logger_on_first_use=False)
    yield
    structlog.reset_defaults()


@pytest.mark.usefixtures("logging")
async def test_a_fault_of_the_daemon_does_not_repeat_it(
    served: Served, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """Also where nobody foresaw it: the log has a traceback, and no values of variables."""

    def fail(*_: object) -> None:
        raise RuntimeError("on purpose")

    monkeypatch.setattr(served.daemon.vault, "seal", fail)
    answer = await put(served)
    assert answer.status_code == 500
    told = capfd.readouterr()
    assert "on purpose" in told.out + told.err
    seeker = Seeker(SECRET)
    seeker.look_at("the answer", answer.content)
    seeker.look_at("the log", (told.out + told.err).encode())
    assert seeker.leaks == []


async def test_no_answer_of_any_route_holds_it(served: Served):
    await put(served)
    session = await served.new_session()
    await served.finished(await served.prompt(session, '[{"key": "ANTHROPIC_API_KEY"}]'))
    seeker = Seeker(SECRET)
    for path in (
        "/credentials", "/credentials/rotation", f"/sessions/{session}", "/metrics", "/health",
        f"/sessions/{session}/messages", f"/sessions/{session}/tasks", "/openapi.json", "/docs",
        KEY, "/sessions", "/permissions", "/executors",
    ):  # fmt: skip
        seeker.look_at(path, (await served.ask.get(path)).content)
    assert seeker.leaks == []
    assert (await served.ask.get(KEY)).status_code == 405


async def test_the_audit_log_tells_of_all_of_it_and_holds_no_value(served: Served):
    await put(served)
    session = await served.new_session()
    script = '[{"key": "ANTHROPIC_API_KEY"}, {"key": "NOT_THERE"}]'
    task = await served.finished(await served.prompt(session, script))
    assert task["error"]["code"] == "no_such_credential"
    assert "agor credential set NOT_THERE" in task["error"]["hint"]
    await served.ask.delete(KEY)
    answer = await served.ask.get("/audit", params={"limit": 200})
    told = {each["action"]: each for each in answer.json()["items"]}
    delivered = told["credential.delivered"]
    assert delivered["session_id"] == session
    assert delivered["subject"] == "ANTHROPIC_API_KEY"
    assert delivered["user_id"] == served.who.user_id
    assert delivered["detail"]["task"] == task["task_id"]
    assert delivered["detail"]["agent"] == "scripted"
    assert delivered["detail"]["last_four"] == "WXYZ"
    assert told["credential.refused"]["subject"] == "NOT_THERE"
    assert {"credential.set", "credential.deleted"} <= set(told)
    seeker = Seeker(SECRET)
    seeker.look_at("the audit log", answer.content)
    assert seeker.leaks == []


async def test_a_put_takes_no_idempotency_key_and_no_answer_is_kept(served: Served):
    answer = await served.ask.put(KEY, json={"value": SECRET}, headers={"idempotency-key": "one"})
    assert answer.status_code == 422
    assert SECRET not in answer.text
    assert (await put(served)).status_code == 200
    assert await served.daemon.store.read("SELECT * FROM receipts") == []


def test_the_form_hides_its_value_when_it_is_printed():
    new = NewCredential(value=SECRET)
    assert SECRET not in f"{new} {new!r} {[new]} {new.__rich_repr__()}"


# ── rotation ─────────────────────────────────────────────────────────────────────────────────


async def settled(served: Served) -> dict[str, Any]:
    async with asyncio.timeout(20):
        while True:
            found: dict[str, Any] = (await served.ask.get("/credentials/rotation")).json()
            if found["status"] != "running":
                return found
            await asyncio.sleep(0.005)


async def test_a_rotation_is_begun_and_shown(served: Served):
    nothing = (await served.ask.get("/credentials/rotation")).json()
    assert (nothing["status"], nothing["version"], nothing["versions"]) == ("done", None, [])
    for n in range(3):
        await put(served, f"/credentials/K{n}")
    begun = await served.ask.post("/credentials/rotation")
    assert begun.status_code == 202
    assert (begun.json()["status"], begun.json()["version"]) == ("running", 2)
    assert await settled(served) == {
        "status": "done", "version": 2, "versions": [2], "sealed": 3, "left": 0, "to_do": None,
    }  # fmt: skip


async def test_a_rotation_that_is_repeated_with_its_key_is_one(served: Served):
    await put(served)
    headers = {"idempotency-key": "one"}
    first = await served.ask.post("/credentials/rotation", headers=headers)
    await settled(served)
    again = await served.ask.post("/credentials/rotation", headers=headers)
    assert again.json() == first.json()
    assert again.headers["idempotency-replayed"] == "true"
    assert (await settled(served))["version"] == 2


async def test_it_is_there_after_a_restart(tmp_path: Path):
    async with serving(tmp_path) as served:
        await put(served)
        await served.ask.post("/credentials/rotation")
    async with serving(tmp_path) as served:
        found = await settled(served)
        assert (found["status"], found["versions"], found["left"]) == ("done", [2], 0)
        session = await served.new_session()
        task = await served.prompt(session, '[{"key": "ANTHROPIC_API_KEY"}]')
        assert (await served.finished(task))["status"] == "completed"
