"""`agor daemon`: runs the daemon, in the foreground or in the background, and says how it is.

Settings are imported where they are read: `agor daemon status` answers without them.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.status import Status
from rich.text import Text

import agor
from agor.cli import background, log_file
from agor.cli.asking import ask
from agor.cli.printable import printable
from agor.errors import BadConfig, DaemonNotRunning
from agor.home import Description, Home, Running
from agor.linux import age_of
from agor.protocol.api import Health
from agor.protocol.launching import Process

if TYPE_CHECKING:
    from agor.client import Client

NOT_RUNNING = 3
#: What is said of each state, and its colour.
_WORDS = {
    "running": ("is running", "green"),
    "starting": ("is starting", "yellow"),
    "ending": ("is ending", "yellow"),
    "restoring": ("is not running: a backup is being restored", "yellow"),
    "stopped": ("is not running", "yellow"),
    "unresponsive": ("runs, but does not answer", "red"),
}
#: Seconds that ending may take beyond the times the daemon gives its parts.
_GRACE = 3.0

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Start and stop the daemon, and see how it is."
)


def _address(host: str | None) -> str | None:
    if host is None:
        return None
    from agor.config.keys import KEYS

    kind = KEYS["daemon.host"].kind
    try:
        return str(kind.read(host))
    except ValueError:
        raise typer.BadParameter(f"It must be {kind.allowed}.") from None


Host = Annotated[
    str | None,
    typer.Option(callback=_address, help="Listen on this address (default: daemon.host)."),
]
Port = Annotated[
    int | None,
    typer.Option(min=0, max=65535, help="Listen on this port, 0 for any (default: daemon.port)."),
]
Force = Annotated[bool, typer.Option("--force", help="Kill it if it does not end in time.")]


@app.command()
def run(host: Host = None, port: Port = None) -> None:
    """Run the daemon here, in the foreground; its log goes to standard error."""
    # Imported late: it is most of the program, and no other command needs it.
    from agor.config import load
    from agor.daemon import process

    home = Home.find()
    config = load(home.folder)

    raise typer.Exit(process.run(config, home, host=host, port=port))


@app.command()
def start(host: Host = None, port: Port = None) -> None:
    """Start the daemon in the background, and wait until it serves."""
    from agor.config import load

    home = Home.find()
    load(home.folder)
    _start(home, host, port)


@app.command()
def stop(force: Force = False) -> None:
    """End the daemon in order. Executors go on, unless daemon.drain_on_stop is set."""
    home = Home.find()
    if not _stop(home, force):
        typer.echo("agor is not running")


@app.command()
def restart(host: Host = None, port: Port = None, force: Force = False) -> None:
    """Stop the daemon and start it, with the settings as they are now."""
    from agor.config import load

    home = Home.find()
    # Settings that are wrong must not cost us the daemon that runs.
    config = load(home.folder)
    _check_host(home, config.daemon.host if host is None else host)
    _stop(home, force)
    _start(home, host, port)


@app.command()
def status(
    as_json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
) -> None:
    """Say whether the daemon runs, where, and how it is. Exit code 3: it does not run."""
    home = Home.find()
    running = home.running()
    found: dict[str, Any] = {"state": "stopped"}
    if running is not None and running.description is not None:
        found = _look_at(running.description, home)
    elif running is not None:
        found = {"state": _state(running)}
    if as_json:
        typer.echo(json.dumps(found | {"home": str(home.folder)}))
    else:
        _show_status(found, home)
    if found["state"] != "running":
        raise typer.Exit(NOT_RUNNING if running is None else 1)


@app.command()
def url() -> None:
    """Print where the daemon listens, and nothing else. Exit code 3: it does not run."""
    home = Home.find()
    running = home.running()
    if running is None or running.description is None:
        if running is None:
            typer.echo("agor is not running. Start it with: agor daemon start", err=True)
            raise typer.Exit(NOT_RUNNING)
        typer.echo(f"agor {_WORDS[_state(running)][0]}. Try again in a moment.", err=True)
        raise typer.Exit(1)
    typer.echo(running.description.url)


@app.command("logs")
def show_logs(
    lines: Annotated[int, typer.Option("-n", "--lines", min=0, help="How many.")] = 50,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until Ctrl-C.")] = False,
) -> None:
    """Show the last lines of the log of the daemon in the background."""
    path = Home.find().log_file
    end = 0
    try:
        tail, end = log_file.last_lines(path, lines)
        typer.echo(printable(tail), nl=False)
    except FileNotFoundError:
        if not follow:
            raise DaemonNotRunning(
                f"there is no log at {path}",
                hint="`agor daemon start` writes one; `agor daemon run` logs where it runs.",
            ) from None
    if follow:
        for text in log_file.follow(path, end):
            typer.echo(printable(text), nl=False)


def _check_host(home: Home, host: str) -> None:
    """Ask the daemon that runs whether the next one may listen there."""
    from agor.daemon.api.gate import check_host, is_loopback

    if is_loopback(host) or home.running() is None:
        return

    async def can_sign_in(client: Client) -> bool:
        users = [user async for user in client.users.list()]
        return any(user.has_password and user.disabled_at is None for user in users)

    # If it ends just now it is started, with the settings as they are now, and asked.
    check_host(host, can_sign_in=ask(can_sign_in))


def _start(home: Home, host: str | None, port: int | None) -> None:
    options = {"--host": host, "--port": port}
    arguments = [f"{name}={value}" for name, value in options.items() if value is not None]
    with _waiting("waiting for it to serve"):
        description, is_new = background.start(home, arguments)
    already = "" if is_new else " already"
    typer.echo(f"agor is running{already}: {description.url} (process {description.pid})")
    if arguments and not is_new:
        typer.echo(f"To have it with {' '.join(arguments)}: agor daemon restart", err=True)


def _stop(home: Home, force: bool) -> bool:
    from agor.config import Config, load

    try:
        config = load(home.folder)
    except BadConfig:
        # It can be ended all the same.
        config = Config()
    # Its clients may take their time first, then what is to be stored, then executors to be ended.
    parts = 2 * config.daemon.stop_timeout_ms + config.execution.stop_timeout_ms
    with _waiting("waiting for it to end"):
        process = background.stop(home, parts / 1000 + _GRACE, force=force)
    if process is not None:
        typer.echo(f"agor has stopped (process {process.pid})")
    return process is not None


def _waiting(for_what: str) -> Status:
    """Show in a terminal that something is under way."""
    return Console(stderr=True).status(for_what)


def _look_at(description: Description, home: Home) -> dict[str, Any]:
    """Ask the daemon how it is."""
    process = Process(description.pid, description.process_start)

    def check_it_is_there() -> None:
        # Else another program may listen on its port by now, and must not be sent the token.
        running = home.running()
        if running is None or running.description != description:
            raise ConnectionError("it has just ended")

    found = {
        "state": "running",
        "url": description.url,
        "pid": description.pid,
        "version": description.version,
        "started_at": description.started_at,
        "uptime_ms": int(age_of(process) * 1000),
    }
    try:
        token = home.read_token()
        code, body = background.ask(description.url, "/health", token, check=check_it_is_there)
        health = msgspec.json.decode(body, type=Health)
    except (OSError, http.client.HTTPException) as error:
        return found | {"state": "unresponsive", "why": str(error) or type(error).__name__}
    except msgspec.DecodeError:
        return found | {"state": "unresponsive", "why": f"it answers with status {code}"}
    return found | {"health": msgspec.to_builtins(health)}


def _state(running: Running) -> str:
    """Tell what somebody does who holds the lock and does not serve."""
    if running.restoring:
        return "restoring"
    return "ending" if running.ending else "starting"


def _show_status(found: dict[str, Any], home: Home) -> None:
    console = Console(highlight=False, soft_wrap=True)
    word, style = _WORDS[found["state"]]
    console.print(Text.assemble(("● ", style), "agor ", (word, f"bold {style}")))
    for name, fact in _facts(found, home):
        console.print(Text(printable(f"  {name:<8} {fact}")))
    for check in found.get("health", {}).get("checks", ()):
        sign, style = ("✓", "green") if check["ok"] else ("✗", "bold red")
        line = Text.assemble("  ", (sign, style), printable(f" {check['name']}: {check['detail']}"))
        console.print(line)


def _facts(found: dict[str, Any], home: Home) -> Iterator[tuple[str, str]]:
    yield "home", str(home.folder)
    if "pid" in found:
        ours, its = agor.__version__, found["version"]
        other = "" if its == ours else f" (this command is {ours}: agor daemon restart)"
        yield "url", found["url"]
        yield "process", f"{found['pid']}, for {duration(found['uptime_ms'])}"
        yield "version", f"{its}{other}"
    if "why" in found:
        yield "because", found["why"]


def duration(milliseconds: int) -> str:
    """Say how long, in the two largest units."""
    seconds = milliseconds // 1000
    units = (("d", seconds // 86400), ("h", seconds // 3600 % 24), ("min", seconds // 60 % 60))
    told = [f"{count} {unit}" for unit, count in (*units, ("s", seconds % 60))]
    first = next((i for i, part in enumerate(told) if not part.startswith("0 ")), len(told) - 1)
    return " ".join(told[first : first + 2])
