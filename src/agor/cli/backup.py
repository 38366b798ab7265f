"""`agor backup`: writes everything that the daemon keeps to one file, while it runs or not."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from agor.cli.asking import remark
from agor.home import Home

T = TypeVar("T")

app = typer.Typer(add_completion=False)


@app.command()
def backup(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The file to write.")],
    force: Annotated[
        bool, typer.Option("--force", help="Replace the file if it is there already.")
    ] = False,
    include_master_key: Annotated[
        bool,
        typer.Option(
            "--include-master-key",
            help="Put the master key into the file: whoever has the file then has the credentials.",
        ),
    ] = False,
) -> None:
    """Write everything the daemon keeps to one file, while it runs."""
    from agor.daemon.backup.archive import MASTER_KEY
    from agor.daemon.backup.backup import make_backup

    making = make_backup(Home.find(), path, force=force, include_master_key=include_master_key)
    made = asyncio.run(until_terminated(making))
    typer.echo(f"{made.path} ({_size(made.size)})")
    typer.echo(f"  database  {made.database}, schema {made.manifest.schema}")
    state = "verified" if made.audit_fault is None else f"WRONG: {made.audit_fault}"
    number = made.manifest.audit_number
    typer.echo(f"  audit     {number} {'record' if number == 1 else 'records'}, {state}")
    if MASTER_KEY in made.manifest.members:
        remark("It contains the master key: whoever can read it has all credentials.")
    else:
        remark(
            f"It does not contain the master key, which is {made.master_key}. Without that key "
            "the credentials in the backup cannot be opened: keep a copy of it, elsewhere."
        )


async def until_terminated(work: Coroutine[Any, Any, T]) -> T:
    """Work until it is done; SIGTERM and SIGHUP cancel it as Ctrl-C does, so that it cleans up."""
    task = asyncio.ensure_future(work)

    def end() -> None:
        # Once: a terminal that closes sends SIGHUP twice, and must not cancel the cleaning up.
        if not task.cancelling():
            task.cancel()

    for number in ending_signals():
        asyncio.get_running_loop().add_signal_handler(number, end)
    try:
        return await task
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def ending_signals() -> list[signal.Signals]:
    """List the signals beside SIGINT that end a command; nohup has it ignore SIGHUP."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    return [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]


def _size(size: int) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024  # type: ignore[assignment]
    return f"{size:.4g} GiB"
