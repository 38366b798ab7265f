"""Restoring a PostgreSQL database in one transaction: old tables move aside, new ones come.

The dump is turned into SQL and piped into psql between BEGIN and COMMIT; whoever is killed
meanwhile leaves the database as it was.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from pathlib import Path

from agor.daemon.backup.postgres_snapshot import state_of
from agor.daemon.backup.postgres_tools import Tools, environment, login
from agor.daemon.store.postgres import faults
from agor.daemon.store.postgres.connection import Connection, connect, connect_alone
from agor.errors import AgorError, BackupFailed

_CHUNK = 1024 * 1024
#: The first server that knows it; newer tools set it for any.
_TIMEOUT_SINCE = 17
_TIMEOUT = b"SET transaction_timeout = 0;\n"


#: The functions of the triggers of a schema's tables.
_FUNCTIONS = """
SELECT DISTINCT tgfoid::regprocedure::text FROM pg_trigger
JOIN pg_class ON pg_class.oid = tgrelid JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE NOT tgisinternal AND nspname = $1
"""


class Target:
    """A database that is ours alone until it is closed: no daemon can open it meanwhile."""

    def __init__(
        self, url: str, connection: Connection, namespace: str, revision: str | None
    ) -> None:
        self._url = url
        self._connection = connection
        self._namespace = namespace
        #: None if it is empty.
        self.revision = revision

    @classmethod
    async def open(cls, url: str, namespace: str | None) -> Target:
        """Lock a database, and see that a dump of this schema can be put into it."""
        try:
            connection = await connect_alone(url)
            here, revision = await state_of(connection)
        except AgorError:
            raise
        except Exception as error:
            raise faults.unusable(error) from error
        if here != namespace:
            await connection.close()
            raise BackupFailed(
                f"the tables of the backup were in the schema {namespace!r}, and this database's "
                f"current schema is {here!r}",
                hint="Set search_path of the user in database.url to that schema.",
            )
        return cls(url, connection, here, revision)

    async def close(self) -> None:
        """Let others have it."""
        await self._connection.close()

    async def drop_empty(self, schema: str) -> None:
        """Remove a schema that nothing is in."""
        await self._connection.execute(f'DROP SCHEMA "{schema}" RESTRICT')

    async def replace(self, dump: Path, aside: str) -> None:
        """Move what is there into the schema `aside`, and restore a dump in its place."""
        tools = await Tools.find(self._connection.get_server_version().major)
        tables = await self._connection.fetch(
            "SELECT tablename FROM pg_tables WHERE schemaname = $1", self._namespace
        )
        functions = await self._connection.fetch(_FUNCTIONS, self._namespace)
        before = [waiting_for(aside), f'CREATE SCHEMA "{aside}"']
        before += [
            f'ALTER TABLE "{self._namespace}"."{name}" SET SCHEMA "{aside}"' for (name,) in tables
        ]
        before += [f'ALTER FUNCTION {name} SET SCHEMA "{aside}"' for (name,) in functions]
        after = [f'DELETE FROM "{self._namespace}".executors']  # noqa: S608 - a name from the server
        await self._run(tools, dump, _script("BEGIN", *before), _script(*after, "COMMIT"))

    async def _run(self, tools: Tools, dump: Path, before: bytes, after: bytes) -> None:
        with login(self._url) as bare:
            contents = dump.with_name(f"{dump.name}.contents")
            contents.write_bytes(await self._contents(tools, dump))
            reading = await asyncio.create_subprocess_exec(
                tools.program("pg_restore"),
                "--no-owner",
                "--no-privileges",
                "--file=-",
                f"--use-list={contents}",
                str(dump),
                env=environment(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
            )
            writing = await asyncio.create_subprocess_exec(
                tools.program("psql"),
                "--no-psqlrc",
                "--quiet",
                "--no-password",
                "--set=ON_ERROR_STOP=1",
                f"--dbname={bare}",
                env=environment(),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )
            try:
                words = asyncio.create_task(_read(writing.stderr))
                await self._pipe(reading, writing, before, after)
                code = await writing.wait()
            finally:
                for process in (reading, writing):
                    with contextlib.suppress(ProcessLookupError):
                        process.kill()
                    await process.wait()
            said = (await words).decode(errors="replace").strip()
        if code:
            raise BackupFailed(
                f"the database could not be restored: {said[-2000:]}",
                hint="Nothing was changed: it is one transaction.",
            )

    async def _contents(self, tools: Tools, dump: Path) -> bytes:
        """List what a dump has but the schema itself, which is there already."""
        listed = await tools.run("pg_restore", "--list", str(dump))
        itself = re.compile(
            rf"\d+; \d+ \d+ (SCHEMA|COMMENT) - (SCHEMA )?{self._namespace} ".encode()
        )
        return b"".join(line for line in listed.splitlines(True) if not itself.match(line))

    async def _pipe(
        self,
        reading: asyncio.subprocess.Process,
        writing: asyncio.subprocess.Process,
        before: bytes,
        after: bytes,
    ) -> None:
        source, sink = reading.stdout, writing.stdin
        assert source is not None
        assert sink is not None
        # If psql ends early its exit code says why.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            sink.write(before)
            first = True
            while chunk := await source.read(_CHUNK):
                if first and self._connection.get_server_version().major < _TIMEOUT_SINCE:
                    chunk = chunk.replace(_TIMEOUT, b"", 1)
                first = False
                sink.write(chunk)
                await sink.drain()
            if await reading.wait() == 0:
                # Without it psql ends without a COMMIT.
                sink.write(after)
                await sink.drain()
            else:
                sink.write(b"DO $$ BEGIN RAISE 'pg_restore cannot read the dump'; END $$;\n")
            sink.close()
            await sink.wait_closed()


def waiting_for(schema: str) -> str:
    """Make the statement that lets only one transaction at a time be about a schema."""
    return f"SELECT pg_advisory_xact_lock(hashtext('{schema}'))"


async def has_schema(url: str, name: str) -> bool:
    """Tell whether a restore has made its schema; wait for its transaction if that still runs.

    It outlives who began it for a while: the server may be at its COMMIT.
    """
    try:
        connection = await connect(url)
    except Exception as error:
        raise faults.unusable(error) from error
    try:
        await connection.execute(waiting_for(name))
        return bool(
            await connection.fetchval("SELECT 1 FROM pg_namespace WHERE nspname = $1", name)
        )
    except TimeoutError:
        raise BackupFailed(
            "the database is still being restored", hint="Try again in a minute."
        ) from None
    finally:
        await connection.close()


def _script(*statements: str) -> bytes:
    return "".join(f"{statement};\n" for statement in statements).encode()


async def _read(stream: asyncio.StreamReader | None) -> bytes:
    return b"" if stream is None else await stream.read()
