"""The OpenAPI 3.1 document, made from the table of routes and the forms it names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, cast

import msgspec

import agor
from agor.daemon.api.answers import JSON, PROBLEM
from agor.daemon.api.problems import row_of
from agor.daemon.api.route import WEBSOCKET, Route
from agor.errors import (
    AgorError,
    BadInput,
    Forbidden,
    InternalError,
    Overloaded,
    TimedOut,
    TooLarge,
    Unauthenticated,
    Unprocessable,
)
from agor.protocol.api import ProblemDetails

Schema = dict[str, Any]

_REFERENCE = "#/components/schemas/{name}"
_ID = {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[A-Za-z0-9_-]+$"}
_NAMES = re.compile(r"\{(\w+)\}")

_ABOUT = """The daemon of agor: sessions with coding agents, their tasks, and what they tell.

Every request but those that say otherwise carries `Authorization: Bearer TOKEN`, or the cookie of a
sign-in, with which only pages of the daemon itself may change anything. Times are milliseconds
since 1970. Lists come in pages: `next_cursor` of one asks for the next. Errors are problems as RFC
9457 has them; programs branch on `code`. A POST with an `Idempotency-Key` that was answered before
is answered the same again, and not done again. Unknown members and parameters are
refused."""

_KEY_PARAMETER = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Makes it safe to repeat this request: one effect, one answer. Kept for a day.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
}
_CURSOR_PARAMETER = {
    "name": "Last-Event-ID",
    "in": "header",
    "required": False,
    "description": "Begin behind this event; counts more than `after`. Browsers send it.",
    "schema": {"type": "string", "pattern": "^[0-9]{1,18}$"},
}
_WEBSOCKET_TOO = """

The same address takes a WebSocket: each event is a text frame. It is closed with 1013 (come back
with the cursor that the reason names), 1012 (the daemon is shutting down), 4403 (you may not
follow it any more), 4404 (the session was deleted) or 1003 (the client sent
something; nothing is expected)."""


def describe(routes: Sequence[Route]) -> dict[str, Any]:
    """Make the document."""
    visible = [route for route in routes if route.method != WEBSOCKET]
    forms = [ProblemDetails]
    for route in visible:
        given = (route.body, route.result, *route.also.values())
        forms += [form for form in given if form not in (None, str, dict)]
    _, components = msgspec.json.schema_components(forms, ref_template=_REFERENCE)
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "agor", "version": agor.__version__, "description": _ABOUT},
        "paths": {},
        "components": {
            "schemas": _readable(dict(sorted(components.items()))),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }
    for route in visible:
        at_path = document["paths"].setdefault(route.path, {})
        at_path[route.method.lower()] = _operation(route)
    return document


def _operation(route: Route) -> dict[str, Any]:
    handler: Any = route.handler or route.stream
    group = handler.__module__.rpartition(".")[2]
    operation: dict[str, Any] = {
        "operationId": f"{group}_{handler.__name__}",
        "tags": [group],
        "summary": route.summary,
        "responses": _responses(route),
    }
    details = route.details + (_WEBSOCKET_TOO if route.stream else "")
    if details:
        operation["description"] = details
    if parameters := _parameters(route):
        operation["parameters"] = parameters
    if route.body is not None:
        operation["requestBody"] = {
            "required": not route.body_optional,
            "content": {JSON: {"schema": _schema(route.body)}},
        }
    if not route.token:
        operation["security"] = []
    return operation


def _parameters(route: Route) -> list[dict[str, Any]]:
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": _ID}
        for name in _NAMES.findall(route.path)
    ]
    if route.query is not None:
        (_, forms) = msgspec.json.schema_components([route.query])
        for name, schema in forms[route.query.__name__]["properties"].items():
            # A query has no null: a parameter that may be left out is left out.
            stripped = _readable(_without_null(schema))
            description = stripped.pop("description", None)
            parameter = {"name": name, "in": "query", "required": False, "schema": stripped}
            if description:
                parameter["description"] = description
            parameters.append(parameter)
    if route.takes_key:
        parameters.append(_KEY_PARAMETER)
    if route.stream:
        parameters.append(_CURSOR_PARAMETER)
    return parameters


def _responses(route: Route) -> dict[str, Any]:
    """Tell every status with its form: results, and what may go wrong."""
    responses: dict[int, dict[str, Any]] = {}
    for status, form in {route.status: route.result, **route.also}.items():
        response: dict[str, Any] = {"description": HTTPStatus(status).phrase}
        if form is not None:
            # The content of a stream is text; what its data holds is told by the form beside it.
            schema: Schema = {"type": "string"} if route.stream else _schema(form)
            response["content"] = {route.media: {"schema": schema}}
        if route.takes_key:
            response["headers"] = {"Idempotency-Replayed": _REPLAYED}
        responses[status] = response
    problems = _problems(route)
    for status, kinds in sorted(problems.items()):
        response = responses.setdefault(status, {"description": HTTPStatus(status).phrase})
        codes = ", ".join(f"`{code}`" for code in sorted(kinds))
        response["description"] += f": {codes}"
        response.setdefault("content", {})[PROBLEM] = {"schema": _schema(ProblemDetails)}
        if status in (429, 503):
            response["headers"] = {"Retry-After": {"schema": {"type": "integer"}}}
        if status == 401:
            response["headers"] = {"WWW-Authenticate": {"schema": {"type": "string"}}}
    return {str(status): response for status, response in sorted(responses.items())}


_REPLAYED = {
    "description": "`true` if this is the answer of before.",
    "schema": {"type": "string", "enum": ["true"]},
}


def _problems(route: Route) -> dict[int, set[str]]:
    """Collect the codes of what may go wrong, by status."""
    kinds: list[type[AgorError]] = [BadInput, Forbidden, Unprocessable, InternalError, Overloaded]
    if route.token:
        kinds.append(Unauthenticated)
    if route.body is not None:
        kinds += (TooLarge, TimedOut)
    problems: dict[int, set[str]] = {}
    for kind in (*kinds, *route.errors):
        row = row_of(kind)
        assert row is not None, f"{kind.__name__} has no status"
        problems.setdefault(row[0], set()).add(kind.code)
    if route.body is not None:
        problems[415] = {"unsupported_media_type"}
    return problems


def _schema(form: Any) -> Schema:
    if form is dict:
        return {"type": "object"}
    if form is str:
        return {"type": "string"}
    ((reference,), _) = msgspec.json.schema_components([form], ref_template=_REFERENCE)
    return cast("Schema", _readable(reference))


def _without_null(schema: Schema) -> Schema:
    choices = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    return (
        dict(choices[0])
        if len(choices) == 1
        else {name: value for name, value in schema.items() if name != "title"}
    )


def _readable(value: Any) -> Any:
    """Name pages by what is on them, and say of which type an enumeration is."""
    if isinstance(value, list):
        return [_readable(each) for each in value]
    if not isinstance(value, dict):
        return value
    readable = {_readable_name(name): _readable(each) for name, each in value.items()}
    if "$ref" in readable:
        readable["$ref"] = _readable_name(readable["$ref"])
    if "enum" in readable and all(isinstance(each, str) for each in readable["enum"]):
        readable = {"type": "string", **readable}
    return readable


def _readable_name(name: str) -> str:
    return re.sub(r"Page_(\w+)_$", r"\1Page", name)
