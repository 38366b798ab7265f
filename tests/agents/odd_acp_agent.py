"""An ACP agent that does what its prompt says: a JSON array of steps. Nothing of ours is in it.

{"update": {…}}                 a session update
{"ask": {…}, "options": […]}    asks for permission; says which option was chosen
{"call": method, "params": {…}} asks for something else; says what the answer was
{"raw": "…", "times": n}        lines as they are
{"flood": n}                    so many pieces of text
{"error": {…}}  {"stop": "…"}   ends the turn
{"exit": 3, "words": "…"}       ends the program
{"wait": true}                  waits until it is told to cancel
"""

from __future__ import annotations

import itertools
import json
import sys
from typing import Any

FLAGS = set(sys.argv[1:])
numbers = itertools.count(1000)


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def read() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    found: dict[str, Any] = json.loads(line)
    return found


def update(session_id: str, what: dict[str, Any]) -> None:
    send({"method": "session/update", "params": {"sessionId": session_id, "update": what}})


def say(session_id: str, text: str) -> None:
    content = {"type": "text", "text": text}
    update(session_id, {"sessionUpdate": "agent_message_chunk", "content": content})


def ask(*requests: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Ask for several things at once, and wait for all answers."""
    asked = [next(numbers) for _ in requests]
    for number, (method, params) in zip(asked, requests, strict=True):
        send({"id": number, "method": method, "params": params})
    answers: dict[int, dict[str, Any]] = {}
    while len(answers) < len(asked):
        message = read()
        if "method" not in message:
            answers[message["id"]] = message
    return [answers[number] for number in asked]


def permit(session_id: str, step: dict[str, Any]) -> None:
    options = step.get("options") or [
        {"optionId": "y", "name": "Yes", "kind": "allow_once"},
        {"optionId": "n", "name": "No", "kind": "reject_once"},
    ]
    calls = step["ask"] if isinstance(step["ask"], list) else [step["ask"]]
    params = [{"sessionId": session_id, "toolCall": call, "options": options} for call in calls]
    for answer in ask(*(("session/request_permission", each) for each in params)):
        outcome = answer["result"]["outcome"]
        say(session_id, f"chosen: {outcome.get('optionId', outcome['outcome'])}")


def play(session_id: str, step: dict[str, Any]) -> None:
    """Do one step."""
    match step:
        case {"update": what}:
            update(session_id, what)
        case {"ask": _}:
            permit(session_id, step)
        case {"call": method, **more}:
            (answer,) = ask((method, {"sessionId": session_id, **more.get("params", {})}))
            say(session_id, "refused" if "error" in answer else "done")
        case {"raw": text, **more}:
            for _ in range(more.get("times", 1)):
                print(text, flush=True)
        case {"flood": count}:
            for number in range(count):
                say(session_id, f"{number} ")


def ending(step: dict[str, Any]) -> dict[str, Any] | None:
    """Do a step that ends the turn: the answer to the prompt."""
    match step:
        case {"error": error}:
            return {"error": error}
        case {"stop": reason, **more}:
            return {"result": {"stopReason": reason, **more}}
        case {"exit": code, **more}:
            print(more.get("words", ""), file=sys.stderr, flush=True)
            sys.exit(code)
        case {"wait": True}:
            while read().get("method") != "session/cancel":
                pass
            return {"result": {"stopReason": "cancelled"}}
    return None


def prompt(params: dict[str, Any]) -> dict[str, Any]:
    text = params["prompt"][0]["text"]
    # Any other prompt is echoed.
    if not text.startswith("["):
        say(params["sessionId"], text)
        return {"result": {"stopReason": "end_turn"}}
    for step in json.loads(text):
        play(params["sessionId"], step)
        if (answer := ending(step)) is not None:
            return answer
    return {"result": {"stopReason": "end_turn"}}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "initialize":
            version = 7 if "--new" in FLAGS else 1
            able = {"loadSession": "--loads" in FLAGS}
            return {"result": {"protocolVersion": version, "agentCapabilities": able}}
        case "session/new":
            return {"result": {"sessionId": "" if "--nameless" in FLAGS else "odd-session"}}
        case "session/load" if params["sessionId"] == "odd-session":
            return {"result": {}}
        case "session/prompt":
            return prompt(params)
    return {"error": {"code": -32601, "message": "no such thing"}}


while True:
    request = read()
    if "--silent" not in FLAGS and "id" in request and "method" in request:
        send({"id": request["id"], **answer(request["method"], request["params"])})
