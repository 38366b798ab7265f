"""The environment on this machine, as our own or as another Unix user.

Our own files are reached by plain calls. Another user's are reached by commands that run as that
user: with our rights, a link that the user placed could lead us to files the user may not see.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Mapping, Sequence
from weakref import WeakSet

import structlog

from agor.environments import files_directly
from agor.environments.base import (
    BasePaths,
    FileInfo,
    OnChanges,
    Watch,
    absolute,
    check_command,
)
from agor.environments.commands import RunningCommand, collect
from agor.environments.files_by_exec import FilesByExec
from agor.environments.identity import UnixIdentity, plain_environment, way_to
from agor.environments.impersonation import plan_launch, sudo_rule
from agor.environments.local_command import LocalCommand
from agor.environments.tree_watch import TreeWatch
from agor.errors import AgorError, BadInput, EnvironmentEnded, EnvironmentFailed

log = structlog.get_logger("agor.environments")

#: Seconds for what we ask of the machine ourselves.
_PATIENCE = 30.0


class LocalEnvironment(FilesByExec):
    """Commands and files of this machine, for one user and one workspace.

    Commands get the umask of a login, 022: a person expects to share what an agent makes as if it
    was made by hand. Without a `runtime` folder, it makes one in /tmp that only the user can
    enter, and removes it in the end.
    """

    def __init__(
        self,
        workspace: str,
        identity: UnixIdentity | None = None,
        runtime: str | None = None,
    ) -> None:
        if not workspace.startswith("/"):
            raise BadInput(f"the workspace {workspace!r} is not an absolute path")
        self._workspace = absolute("/", workspace)
        self._identity = identity or UnixIdentity.current()
        self._is_self = way_to(self._identity) == "self"
        self._runtime = runtime
        self._made_runtime: str | None = None
        self._making_runtime = asyncio.Lock()
        self._id = f"local-{uuid.uuid4().hex}"
        self._commands: set[LocalCommand] = set()
        self._watches: WeakSet[Watch] = WeakSet()
        self._ending: asyncio.Task[None] | None = None

    @classmethod
    async def create(
        cls,
        workspace: str,
        identity: UnixIdentity | None = None,
        runtime: str | None = None,
    ) -> LocalEnvironment:
        """Make one, and make sure that commands can run in it."""
        environment = cls(workspace, identity, runtime)
        try:
            await environment._try_out()
        except BaseException:
            await environment.terminate()
            raise
        return environment

    async def get_id(self) -> str:
        """Return its name."""
        return self._id

    async def get_base_paths(self) -> BasePaths:
        """Say where things are; the runtime folder is made when somebody asks."""
        self._check_running()
        async with self._making_runtime:
            if self._runtime is None:
                self._runtime = self._made_runtime = await self._make_runtime()
        return BasePaths(self._identity.home, self._workspace, self._runtime)

    async def exec(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
    ) -> RunningCommand:
        """Start a command in a session of its own."""
        self._check_running()
        return self._start(command, env or {}, cwd, timeout)

    async def read_file(self, path: str) -> bytes:
        """Read a file."""
        if not self._is_self:
            return await super().read_file(path)
        return await asyncio.to_thread(files_directly.read_whole, await self._place(path))

    async def write_file(self, path: str, data: bytes, mode: int | None = None) -> None:
        """Write a file."""
        if not self._is_self:
            return await super().write_file(path, data, mode)
        place = await self._place(path)
        return await asyncio.to_thread(files_directly.write_whole, place, data, mode)

    async def list_files(self, path: str = ".", *, recursive: bool = False) -> list[FileInfo]:
        """List a folder."""
        if not self._is_self:
            return await super().list_files(path, recursive=recursive)
        place = await self._place(path)
        return await asyncio.to_thread(files_directly.list_folder, place, recursive=recursive)

    async def watch(self, path: str, callback: OnChanges) -> Watch:
        """Watch a path: the kernel tells us of our own, another user's is looked at."""
        watch: Watch
        if self._is_self:
            watch = tree = TreeWatch(await self._place(path), callback)
            await tree.start()
        else:
            watch = await super().watch(path, callback)
        if self._ending:
            await watch.unwatch()
            self._check_running()
        self._watches.add(watch)
        return watch

    async def is_running(self) -> bool:
        """Tell whether it was not terminated."""
        return self._ending is None

    async def poll(self) -> int | None:
        """Give 0 once it was terminated."""
        return None if self._ending is None else 0

    async def terminate(self) -> None:
        """End it. A cancellation of the caller does not stop it half-way."""
        if self._ending is None:
            self._ending = asyncio.create_task(self._end())
        await asyncio.shield(self._ending)

    async def _place(self, path: str) -> str:
        self._check_running()
        return absolute(self._workspace, path)

    def _check_running(self) -> None:
        if self._ending:
            raise EnvironmentEnded(
                f"the environment {self._id} was terminated", hint="Make a new one."
            )

    def _start(
        self, command: Sequence[str], env: Mapping[str, str], cwd: str | None, timeout: float | None
    ) -> LocalCommand:
        check_command(command, env)
        folder = absolute(self._workspace, cwd or ".")
        launch = plan_launch(
            self._identity, command, plain_environment(self._identity) | dict(env), folder
        )
        started = LocalCommand(launch, self._identity, timeout, self._commands.discard)
        self._commands.add(started)
        return started

    async def _try_out(self) -> None:
        done = await self.run(["true"], timeout=_PATIENCE)
        if done.exit_code == 0:
            return
        why = done.stderr.decode(errors="replace").strip()
        name = self._identity.name
        if done.exit_code == 126:
            raise EnvironmentFailed(
                f"{name} cannot work in {self._workspace}: {why}",
                hint="Does the folder exist, and may this user enter it and all above it?",
            )
        hint = None
        if way_to(self._identity) == "sudo":
            hint = f"Add this line to /etc/sudoers with visudo: {sudo_rule(self._identity)}"
        raise EnvironmentFailed(f"cannot run commands as {name}: {why}", hint=hint)

    async def _make_runtime(self) -> str:
        made = await self.run(["mktemp", "-d", "/tmp/agor-XXXXXXXX"], cwd="/", timeout=_PATIENCE)  # noqa: S108 - mktemp takes a name nobody has
        if made.exit_code != 0:
            why = made.stderr.decode(errors="replace").strip()
            raise EnvironmentFailed(f"cannot make a folder in /tmp: {why}")
        return made.stdout.decode().rstrip("\n")

    async def _end(self) -> None:
        """End everything, however much of it fails; then say what failed."""
        failed: list[BaseException] = []
        for watch in tuple(self._watches):
            failed += await _failure_of(watch.unwatch())
        ended = (_failure_of(command.close()) for command in tuple(self._commands))
        failed += [error for errors in await asyncio.gather(*ended) for error in errors]
        if self._made_runtime:
            failed += await _failure_of(self._remove(self._made_runtime))
        for error in failed:
            log.warning("could not end all of an environment", environment=self._id, why=error)
        if failed:
            raise failed[0]

    async def _remove(self, folder: str) -> None:
        async with self._start(["rm", "-rf", "--", folder], {}, "/", _PATIENCE) as removing:
            await collect(removing, b"", 65536)


async def _failure_of(ending: Awaitable[None]) -> list[BaseException]:
    try:
        await ending
    except (AgorError, OSError) as error:
        return [error]
    return []
