"""`agor doctor`: says whether agor can work on this machine, and what to do where it cannot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
import uvloop
from rich.console import Console
from rich.text import Text

from agor.cli.printable import printable
from agor.daemon.pool.doctor import Finding, examine
from agor.home import Home

app = typer.Typer(add_completion=False)

_MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "problem": ("✗", "bold red")}
_INDENT = "    "


@app.command()
def doctor(
    unix_users: Annotated[
        list[str] | None,
        typer.Option(
            "--as", metavar="USER", help="Also: can executors run as this Unix user? Repeatable."
        ),
    ] = None,
    runtime: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="The daemon's runtime folder (default: AGOR_HOME/run)."
        ),
    ] = None,
    canary: Annotated[
        bool,
        typer.Option(
            "--canary",
            help="Instead: keep a made-up key, have an agent use it, and look for it in clear.",
        ),
    ] = False,
    also: Annotated[
        list[Path] | None,
        typer.Option(metavar="PATH", help="With --canary, look here, too. Repeatable."),
    ] = None,
) -> None:
    """Check this machine: what works, what does not, and what to do about it."""
    if canary:
        console = Console(highlight=False, soft_wrap=True)
        _conclude(console, uvloop.run(_fly(console, also or [])))
    else:
        report(_examine_all(runtime or Home.find().runtime, unix_users or []))


def report(findings: Iterator[Finding]) -> None:
    """Show each finding as soon as it is there, and end with what they come to."""
    console = Console(highlight=False, soft_wrap=True)
    _conclude(console, list(_shown(console, findings)))


def _conclude(console: Console, findings: list[Finding]) -> None:
    problems = sum(finding.state == "problem" for finding in findings)
    warnings = sum(finding.state == "warning" for finding in findings)
    console.print(_summary(problems, warnings))
    if problems:
        raise typer.Exit(1)


def _examine_all(runtime: Path, unix_users: list[str]) -> Iterator[Finding]:
    usable = list(unix_users)
    for finding in examine(runtime, unix_users):
        yield finding
        if finding.state == "problem" and finding.name in usable:
            usable.remove(finding.name)
    if usable:
        # Imported late: without users there is nothing to look at.
        from agor.cli.agent_findings import examine_as

        yield from examine_as(usable)


def _shown(console: Console, findings: Iterator[Finding]) -> Iterator[Finding]:
    """Show each finding as soon as it is there."""
    for finding in findings:
        show(console, finding)
        yield finding


async def _fly(console: Console, also: list[Path]) -> list[Finding]:
    # Imported late: no other part of the doctor needs a daemon.
    from agor.cli.canary import Canary

    findings = []
    async for finding in Canary(Home.find(), also).fly():
        findings.append(finding)
        show(console, finding)
    return findings


def show(console: Console, finding: Finding) -> None:
    """Print one finding; what to do about it stands below, on lines that can be copied."""
    sign, style = _MARKS[finding.state]
    line = Text.assemble((sign, style), " ", (finding.name, "bold"), f": {finding.what}")
    line.plain = printable(line.plain)
    console.print(line)
    for advice in (finding.to_do or "").splitlines():
        console.print(Text(_INDENT + printable(advice), "cyan"))


def _summary(problems: int, warnings: int) -> Text:
    if not problems and not warnings:
        return Text("All is well.", "green")
    counts = [
        f"{count} {word}{'s' if count > 1 else ''}"
        for count, word in ((problems, "problem"), (warnings, "warning"))
        if count
    ]
    return Text(", ".join(counts), "bold red" if problems else "yellow")
