"""`agor model-server`: a scripted model in place of a provider, to test a set-up without one."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from agor.errors import BadInput
from agor.testing.model import ModelServer, Request
from agor.testing.model.script import Script, parse_script

app = typer.Typer(add_completion=False)


@app.command()
def model_server(
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any that is free.")] = 0,
    script: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Played to conversations that bring no script along."),
    ] = None,
    print_requests: Annotated[
        bool, typer.Option("--print-requests", help="Print each request as a line of JSON.")
    ] = False,
) -> None:
    """Serve a scripted model on this machine, to test agents without a provider."""
    asyncio.run(_serve(port, _read(script) if script else None, print_requests))


async def _serve(port: int, script: Script | None, print_requests: bool) -> None:
    on_request = _print_request if print_requests else None
    async with ModelServer(port=port, script=script, on_request=on_request) as server:
        end = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, end.set)
        print(server.url, flush=True)
        _show_use(server.url)
        await end.wait()


def _show_use(url: str) -> None:
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    for line in (
        f"ANTHROPIC_BASE_URL={url}",
        f"OPENAI_BASE_URL={url}/v1",
        f"GOOGLE_GEMINI_BASE_URL={url}",
        "Any key will do. Ctrl-C ends it.",
    ):
        console.print(Text(line, "dim"))


def _print_request(request: Request) -> None:
    line = {
        "number": request.number,
        "at": request.at,
        "method": request.method,
        "path": request.target,
        "headers": dict(request.headers),
        "body": request.json if request.json is not None else request.body.decode(errors="replace"),
    }
    try:
        print(json.dumps(line), flush=True)
    except BrokenPipeError:
        # Whoever read it has enough, and we go on serving.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _read(path: Path) -> Script:
    try:
        return parse_script(path.read_bytes())
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from None
