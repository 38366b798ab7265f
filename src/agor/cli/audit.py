"""`agor audit`: shows what happened, and verifies that the log of it is still what it was.

Both ask the daemon. While none runs, `list` starts it, and `verify` reads the database itself,
which changes nothing.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from agor.cli.asking import ask
from agor.cli.moments import moment, shown
from agor.cli.printable import printable
from agor.client import Client
from agor.config import load
from agor.daemon.services.audit.anchors import AnchorFile
from agor.daemon.services.audit.verification import verify_part
from agor.daemon.store.offline import looking_into
from agor.home import Home
from agor.protocol.audit import AuditEntry, AuditVerification

_STYLES = {"ok": "", "refused": "yellow", "failed": "red"}

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="See what happened, and that nobody changed the log.",
)

Json = Annotated[bool, typer.Option("--json", help="As JSON, one object a line.")]


@app.command("list")
def list_entries(
    user: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Done by this person; also: daemon, stranger."),
    ] = None,
    session: Annotated[str | None, typer.Option(metavar="ID", help="In this session.")] = None,
    action: Annotated[
        str | None,
        typer.Option(metavar="ACTION", help="executor.started, or executor. for all of them."),
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="From then on: 2h, 7d, 2026-11-16.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Before then: 2h, 7d, 2026-11-16.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many at most.")] = 50,
    as_json: Json = False,
) -> None:
    """Show what happened, the newest first."""
    after, before = moment(since), moment(until)
    console = Console(highlight=False, soft_wrap=True)

    async def show(client: Client) -> int:
        count = 0
        entries = client.audit.entries(
            user=user, session_id=session, action=action, after=after, before=before
        )
        async for entry in entries:
            if as_json:
                sys.stdout.buffer.write(msgspec.json.encode(entry) + b"\n")
            else:
                console.print(_line(entry))
            count += 1
            if count == limit:
                break
        return count

    count = ask(show)
    if not as_json and count == limit:
        _remark(f"These are the newest {limit}; --limit shows more.")
    elif not as_json and not count:
        _remark("Nothing.")


@app.command("verify")
def verify(as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False) -> None:
    """Verify the log: its chain, and every anchor. Exit code 1 if anything is wrong with it."""
    home = Home.find()
    running = home.running() is not None
    found = asyncio.run(_asked() if running else _looked(home))
    if as_json:
        typer.echo(msgspec.json.encode(found).decode())
    else:
        _show(found, home, offline=not running)
    if found.fault is not None:
        raise typer.Exit(1)


async def _asked() -> AuditVerification:
    async with Client.local() as client:
        return await client.audit.verify()


async def _looked(home: Home) -> AuditVerification:
    # Before the records: each of these was noted after its record.
    anchors = AnchorFile(home.anchor_file).read()
    async with looking_into(load(home.folder).database.url) as database:
        return await verify_part(database, anchors, None, most=sys.maxsize)


def _show(found: AuditVerification, home: Home, *, offline: bool) -> None:
    console = Console(highlight=False, soft_wrap=True)
    fault = found.fault
    sign, style = ("✓", "green") if fault is None else ("✗", "bold red")
    words = "the audit log is as it was written" if fault is None else printable(fault.what)
    console.print(Text.assemble((sign, style), " ", (words, style if fault else "")))
    facts = [
        ("checked", f"{_count(found.checked, 'record')}, {_count(found.anchors, 'anchor')}"),
        ("last", f"{found.number} {found.hash}"),
    ]
    if fault is not None:
        facts.append(("fault", f"record {fault.number}, {fault.kind}"))
    if offline:
        facts.append(("read", f"from the database: no daemon serves {home.folder}"))
    for name, fact in facts:
        console.print(Text(printable(f"  {name:<8} {fact}")))
    if fault is None and not found.anchors:
        _remark(f"There is no anchor in {home.anchor_file}: a cut-off end would not show.")
    if fault is not None:
        _remark(
            "If a copy of the database was put back, or the database is another one: that is why. "
            f"Then keep {home.anchor_file} under another name; the daemon begins a new one."
            if fault.kind in ("anchor", "missing")
            else "Somebody with access to the database changed it. A copy from before shows what."
        )


def _line(entry: AuditEntry) -> Text:
    """Put a record on one line."""
    about = [each for each in (entry.subject, entry.session_id) if each]
    rest = [f"{name}={_brief(value)}" for name, value in entry.detail.items() if value is not None]
    line = Text.assemble(
        (f"{entry.number:>6}  {shown(entry.at)}  ", "dim"),
        (f"{entry.actor:<12}  ", "bold"),
        (f"{entry.action:<22}  ", ""),
        (f"{entry.result:<7}", _STYLES.get(entry.result, "")),
    )
    line.append("  " + "  ".join(about)).append("  " + "  ".join(rest), "dim")
    line.plain = printable(line.plain).replace("\n", " ")
    line.rstrip()
    return line


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _brief(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _remark(text: str) -> None:
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(Text(printable(text), "yellow"))
