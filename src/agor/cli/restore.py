"""`agor restore`: puts a backup in the place of what the daemon keeps, which must not run."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agor.cli.asking import remark
from agor.cli.backup import ending_signals, until_terminated
from agor.errors import BadInput
from agor.home import Home

if TYPE_CHECKING:
    from agor.daemon.backup.archive import Manifest

app = typer.Typer(add_completion=False)


@app.command()
def restore(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A file from agor backup.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Put a backup in the place of what the daemon keeps."""
    from agor.daemon.backup.restore import restore_backup

    def confirm(manifest: Manifest, database: str, there: bool) -> bool:
        typer.echo(f"{path}: made {_time(manifest)} by agor {manifest.agor}")
        what = "the database that is there is moved aside" if there else "there is none yet"
        typer.echo(f"It goes to {database}: {what}.")
        if yes:
            return True
        if not sys.stdin.isatty():
            raise BadInput("nobody is there to ask", hint="Use --yes if this is what you want.")
        try:
            with _interruptible():
                return typer.confirm("Go on?")
        except typer.Abort:
            typer.echo()
            return False

    home = Home.find()
    done = asyncio.run(until_terminated(restore_backup(home, path, confirm)))
    if done is None:
        typer.echo("Nothing was changed.")
        raise typer.Exit(1)
    typer.echo("Restored. Start the daemon with: agor daemon start")
    if done.aside is not None:
        typer.echo(f"What was there before: {done.aside}")
    if done.kept_config:
        remark(f"The settings in {home.config_file} stayed as they were.")
    if done.audit_fault is not None:
        remark(f"Its audit log was wrong when it was backed up: {done.audit_fault}")
    if not done.has_master_key:
        remark(
            f"The master key is missing. Put it at {done.master_key}: without it, the credentials "
            f"in the backup ({done.manifest.credentials}) cannot be opened."
        )


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Have Ctrl-C and other signals end a question: the event loop does not run meanwhile."""
    numbers = (signal.SIGINT, *ending_signals())
    before = [signal.signal(number, signal.default_int_handler) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _time(manifest: Manifest) -> str:
    made = datetime.fromtimestamp(manifest.created_at / 1000, UTC)
    return made.strftime("%Y-%m-%d %H:%M:%S UTC")
