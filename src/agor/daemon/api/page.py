"""The page at /docs: the OpenAPI document, for people. No script, and nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --dim: #888; --link: #2563eb;
  font: 15px/1.55 system-ui, sans-serif }
@media (prefers-color-scheme: dark) { :root { --link: #7aa7ff } }
body { margin: 0 auto; padding: 2rem 1.2rem 6rem; max-width: 60rem }
h1 { margin: 0 } h2 { margin: 3rem 0 .6rem; text-transform: capitalize }
h1 small { color: var(--dim); font-size: 1rem; font-weight: 400 }
a { color: var(--link); text-decoration: none } a:hover { text-decoration: underline }
nav { display: flex; flex-wrap: wrap; gap: .3rem 1rem; margin: 1.2rem 0 }
code { font: .92em ui-monospace, monospace }
details { border: 1px solid var(--line); border-radius: .5rem; margin: .45rem 0 }
summary { cursor: pointer; padding: .5rem .8rem; display: flex; gap: .8rem; align-items: baseline }
summary:hover { background: var(--soft) } summary span { color: var(--dim); margin-left: auto }
details > div { border-top: 1px solid var(--line); padding: .3rem .9rem .8rem }
b.method { font: 700 .78rem ui-monospace, monospace; min-width: 4.2rem }
.get { color: #0a7f4f } .post { color: #2563eb }
.patch { color: #b45309 } .delete { color: #c0262d }
@media (prefers-color-scheme: dark) {
  .get { color: #4ade80 } .post { color: #7aa7ff }
  .patch { color: #fbbf24 } .delete { color: #f87171 } }
table { border-collapse: collapse; width: 100%; margin: .3rem 0 }
td, th { text-align: left; vertical-align: top; padding: .25rem 1rem .25rem 0;
  border-bottom: 1px solid var(--soft) }
th { font-weight: 600; white-space: nowrap } td:last-child { width: 55% }
h4 { margin: .9rem 0 .1rem; font-size: .8rem; color: var(--dim); text-transform: uppercase }
"""

_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()

#: The page may use its own style and nothing else, and nobody may frame it.
HEADERS = [
    (
        b"content-security-policy",
        f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'".encode(),
    ),
    (b"referrer-policy", b"no-referrer"),
]


def render(document: dict[str, Any]) -> str:
    """Make the page."""
    info, forms = document["info"], document["components"]["schemas"]
    groups: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            groups.setdefault(operation["tags"][0], []).append(_operation(method, path, operation))
    links = [*groups, "forms"]
    return "\n".join(
        (
            "<!doctype html>",
            '<html lang="en"><meta charset="utf-8"><title>agor</title>',
            '<meta name="viewport" content="width=device-width">',
            f"<style>{_STYLE}</style>",
            f"<h1>agor <small>{escape(info['version'])}</small></h1>",
            _text(info["description"]),
            "<nav>" + "".join(f'<a href="#{name}">{name}</a>' for name in links),
            '<a href="/openapi.json">openapi.json</a></nav>',
            *(
                f'<h2 id="{name}">{name}</h2>\n' + "\n".join(rendered)
                for name, rendered in groups.items()
            ),
            '<h2 id="forms">forms</h2>',
            *(_form(name, form) for name, form in forms.items()),
            "</html>",
        )
    )


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    parts = [_text(operation.get("description", ""))]
    if operation.get("security") == []:
        parts.append("<p>Needs no token.</p>")
    rows = [
        (
            f"<code>{escape(each['name'])}</code>",
            f"{each['in']}",
            _type(each["schema"]),
            _text(each.get("description", "")),
        )
        for each in operation.get("parameters", ())
    ]
    parts.append(_table("Parameters", rows))
    if body := operation.get("requestBody"):
        schema = next(iter(body["content"].values()))["schema"]
        needed = "" if body["required"] else " (may be left out)"
        parts.append(f"<h4>Body</h4><p>{_type(schema)}{needed}</p>")
    answers = [
        (f"<b>{status}</b>", ", ".join(_contents(response)), _text(response["description"]))
        for status, response in operation["responses"].items()
    ]
    parts.append(_table("Answers", answers))
    return (
        f'<details id="{operation["operationId"]}"><summary><b class="method {method}">'
        f"{method.upper()}</b> <code>{escape(path)}</code> "
        f"<span>{escape(operation['summary'])}</span></summary>"
        f"<div>{''.join(parts)}</div></details>"
    )


def _contents(response: dict[str, Any]) -> Iterator[str]:
    for media, content in response.get("content", {}).items():
        plain = "$ref" not in content["schema"]
        yield f"<code>{escape(media)}</code>" if plain else _type(content["schema"])


def _form(name: str, form: dict[str, Any]) -> str:
    needed = form.get("required", ())
    rows = [
        (
            f"<code>{escape(member)}</code>",
            _type(schema),
            "" if member in needed else "may be left out",
        )
        for member, schema in form.get("properties", {}).items()
    ]
    return (
        f'<details id="form-{name}" open><summary><b>{escape(name)}</b> '
        f"<span>{escape(form.get('description', ''))}</span></summary>"
        f"<div>{_table('', rows)}</div></details>"
    )


def _type(schema: dict[str, Any]) -> str:
    """Say in a few words what a value may be."""
    if reference := schema.get("$ref"):
        name = escape(reference.rpartition("/")[2])
        return f'<a href="#form-{name}">{name}</a>'
    if choices := schema.get("anyOf"):
        return " or ".join(_type(each) for each in choices)
    if choices := schema.get("enum"):
        return " · ".join(f"<code>{escape(str(each))}</code>" for each in choices)
    kind = schema.get("type", "anything")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    least = schema.get("minimum", schema.get("minLength"))
    most = schema.get("maximum", schema.get("maxLength"))
    bounds = f" ({least or 0} to {most:,})" if most is not None else ""
    return escape(f"{kind}{bounds}")


def _table(title: str, rows: Sequence[tuple[str, ...]]) -> str:
    if not rows:
        return ""
    heading = f"<h4>{title}</h4>" if title else ""
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"{heading}<table>{body}</table>"


def _text(text: str) -> str:
    """Escape a text; blank lines part paragraphs, back-quotes mark code."""
    marked = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
    return "".join(f"<p>{each}</p>" for each in marked.split("\n\n")) if "\n\n" in text else marked
