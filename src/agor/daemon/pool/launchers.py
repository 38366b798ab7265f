"""One launcher per Unix identity: started when first needed, found again after a restart.

The first launcher of an identity comes up without the agents' libraries, for those who wait. When
it is quiet, `preload` starts a second one with them; the first serves until the second is ready,
and ends when its executors have. Importing never keeps anybody waiting.

If one dies its executors go on; the next question to it starts another, which can signal those of
its predecessor as well, being the same user.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import re
import signal
import subprocess
from pathlib import Path
from typing import TypeVar

import structlog

import agor
from agor.daemon.pool.folders import Folders
from agor.daemon.pool.identities import check, refusal
from agor.daemon.pool.settings import PoolSettings
from agor.environments.identity import UnixIdentity, way_to
from agor.environments.launching import (
    LauncherLink,
    bind_control,
    executor_command,
    start_launcher,
)
from agor.errors import (
    AgorError,
    Disconnected,
    LauncherFailed,
    LauncherLost,
    ResourcesExhausted,
    TimedOut,
)
from agor.linux import process_of, run_out, send, shortage
from agor.protocol.forms import Nothing
from agor.protocol.launching import RETIRE
from agor.protocol.validation import Method

P = TypeVar("P")
R = TypeVar("R")


log = structlog.get_logger("agor.pool")

#: Seconds for a launcher to import everything, on a machine that is very busy: one with 5 % of a
#: processor needs a minute. A launcher that dies meanwhile is noticed at once.
_START_TIMEOUT = 180.0
#: Seconds for one that an earlier daemon started; another is started in its place then. One that
#: may be importing the agents' libraries is not waited for as long as that takes.
_FIND_TIMEOUT, _FIND_PRELOADED_TIMEOUT = 30.0, 5.0
_END_TIMEOUT = 5.0
#: Seconds that a launcher with nothing below it waits for a daemon, should this one be killed.
_ALONE = 10.0
#: Seconds before one that died is replaced; whoever needs it sooner does not wait.
_RESTART_PAUSE = 0.5
#: What Python says of an error of the system that nobody caught.
_ERRNO = re.compile(r"OSError: \[Errno ([0-9]+)\]")
#: Seconds before each look for the end of a launcher that has hung up.
_REAP_PAUSES = (0.1, 1.0, 5.0)
#: Launchers that are tried one after the other for one question.
_ATTEMPTS = 4


class Launchers:
    """The launchers of one daemon."""

    def __init__(self, settings: PoolSettings, folders: Folders) -> None:
        self._settings = settings
        self._folders = folders
        self._links: dict[str, LauncherLink] = {}
        self._starting: dict[str, asyncio.Lock] = {}
        self._watches: set[asyncio.Task[None]] = set()
        #: Those that were sent away, and are not replaced when they are gone.
        self._leaving: set[LauncherLink] = set()
        #: Those that we started ourselves and have not seen the end of.
        self._processes: list[tuple[str, subprocess.Popen[bytes]]] = []

    async def link(self, identity: UnixIdentity) -> LauncherLink:
        """Get the launcher of an identity: the one there is, or a new one."""
        async with self._starting.setdefault(identity.name, asyncio.Lock()):
            link = self._links.get(identity.name)
            if link is None or not link.open:
                self._reap()
                link = await self._find(identity) or await self._start(identity)
                self._use(identity, link)
            return link

    def _use(self, identity: UnixIdentity, link: LauncherLink) -> None:
        """Send what is asked from now on to this launcher, and replace it if it dies."""
        self._links[identity.name] = link
        watch = asyncio.create_task(self._replace_when_gone(identity, link))
        self._watches.add(watch)
        watch.add_done_callback(self._watches.discard)

    async def _replace_when_gone(self, identity: UnixIdentity, link: LauncherLink) -> None:
        """Start another if one dies, before it is needed: it also ends what lost its keeper."""
        await link.wait_closed()
        if link in self._leaving:
            self._leaving.discard(link)
            await self._reap_soon()
            return
        log.warning("launcher_gone", user=identity.name)
        for attempt in range(1, _ATTEMPTS + 1):
            await asyncio.sleep(attempt * _RESTART_PAUSE)
            try:
                await self.link(identity)
            except (AgorError, OSError) as error:
                log.error("launcher_not_replaced", user=identity.name, why=str(error))
            else:
                return

    async def ask(
        self, identity: UnixIdentity, method: Method[P, R], params: P, *, timeout: float
    ) -> R:
        """Ask what can be asked twice: if the launcher dies meanwhile, the next one answers."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                link = await self.link(identity)
                return await link.call(method, params, timeout=timeout)
            except TimedOut:
                self.give_up(link)
                if attempt == _ATTEMPTS:
                    raise
            except (Disconnected, LauncherFailed):
                if attempt == _ATTEMPTS:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def send_away(self, identity: UnixIdentity) -> None:
        """Have a launcher end, once nothing that it started is left; who needs one starts another.

        One that is asked for something before that goes on as it was, and ends later.
        """
        link = self._links.get(identity.name)
        if link is not None and link.open and link not in self._leaving:
            log.info("launcher_sent_away", user=identity.name)
            await self._dismiss(link)

    async def _dismiss(self, link: LauncherLink) -> None:
        """Have a launcher end, and do not replace it."""
        self._leaving.add(link)
        with contextlib.suppress(AgorError):
            await link.call(RETIRE, Nothing(), timeout=_END_TIMEOUT)

    async def give_up_if_silent(self, link: LauncherLink) -> None:
        """Do without a launcher that hangs; if it answers, only one keeper was too slow."""
        try:
            await link.greet(_END_TIMEOUT)
        except TimedOut:
            self.give_up(link)
        except Disconnected:
            return

    def give_up(self, link: LauncherLink) -> None:
        """Do without a launcher that hangs; it is killed, lest it does it later after all."""
        link.close()
        if link.process is not None and not send(link.process, signal.SIGKILL):
            log.error("launcher_hangs", pid=link.process.pid)

    async def _find(self, identity: UnixIdentity) -> LauncherLink | None:
        """Connect to one that an earlier daemon started.

        First to the one without the agents' libraries: while it has its path, it serves, and the
        other may still be importing them.
        """
        for preloaded in (False, True):
            patience = _FIND_PRELOADED_TIMEOUT if preloaded else _FIND_TIMEOUT
            path = self._path(identity, preloaded=preloaded)
            link = await self._find_at(identity, path, patience)
            if link is not None:
                return link
        return None

    async def _find_at(
        self, identity: UnixIdentity, path: Path, patience: float
    ) -> LauncherLink | None:
        link = LauncherLink.connect(path)
        if link is None:
            return None
        try:
            # It may be coming up just now: the daemon before us may have died over that.
            hello = await link.greet(patience)
        except AgorError as error:
            log.warning("launcher_not_taken_back", user=identity.name, why=error.message)
            link.close()
            return None
        except BaseException:
            # With us connected it would wait for ever for what we ask.
            link.close()
            raise
        folder = self._settings.agents_folder
        wanted = (identity.uid, agor.__version__, None if folder is None else str(folder))
        if (hello.uid, hello.version, hello.agents_folder) != wanted:
            # Those that it started go on; from now on executors are as we are.
            with contextlib.closing(link), contextlib.suppress(AgorError):
                await link.call(RETIRE, Nothing(), timeout=_END_TIMEOUT)
            return None
        log.info("launcher_taken_back", user=identity.name, pid=hello.process.pid)
        return link

    async def preload(self, identity: UnixIdentity) -> None:
        """Replace a launcher by one that has imported the agents' libraries, if it has not."""
        if (await self.link(identity)).preloaded:
            return
        link = await self._start(identity, preload=True)
        try:
            async with self._starting[identity.name]:
                before = self._links.get(identity.name)
                if before is not None and before.open and before.process == link.process:
                    # The first one died, and somebody found this one at its path as it came up.
                    link.close()
                    return
                self._use(identity, link)
        except asyncio.CancelledError:
            # Nobody knows it yet: with us connected it would stay for ever.
            link.close()
            raise
        if before is not None and before.open:
            # Those who reach it by its path would find one that is about to end.
            before.path.unlink(missing_ok=True)
            await self._dismiss(before)

    def preloaded(self, identity: UnixIdentity) -> bool:
        """Tell whether the launcher that is there now has the agents' libraries."""
        link = self._links.get(identity.name)
        return link is not None and link.open and link.preloaded

    async def _start(self, identity: UnixIdentity, *, preload: bool = False) -> LauncherLink:
        await asyncio.to_thread(check, identity)
        path = self._path(identity, preloaded=preload)
        errors = path.with_suffix(".log")
        alone = min(self._settings.orphan_timeout, _ALONE)
        arguments = ["--orphan-timeout-ms", str(max(1, int(alone * 1000)))]
        if preload:
            arguments.append("--preload")
        if self._settings.agents_folder is not None:
            arguments += ["--agents-folder", str(self._settings.agents_folder)]
        with bind_control(path) as listener:
            process = start_launcher(identity, listener, errors, arguments)
            self._processes.append((identity.name, process))
            # While we still have the listener: one that fails at once would take it along.
            link = LauncherLink.connect(path)
            assert link is not None, "it listens already"
        if way_to(identity) != "sudo":
            # What it waits for a processor does not count from its start on. Of sudo's child only
            # its greeting tells who it is.
            link.process = process_of(process.pid)
        try:
            hello = await link.greet(_START_TIMEOUT)
        except (Disconnected, TimedOut) as error:
            link.close()
            raise await self._why(identity, process, errors, error) from error
        except BaseException:
            # Whoever wanted it went away; it comes up all the same, and is found the next time.
            link.close()
            raise
        if hello.uid != identity.uid:
            link.close()
            raise refusal(identity, f"the launcher came up as {hello.user}")
        log.info("launcher_started", user=identity.name, pid=hello.process.pid)
        return link

    async def _why(
        self,
        identity: UnixIdentity,
        process: subprocess.Popen[bytes],
        errors: Path,
        error: AgorError,
    ) -> AgorError:
        """Find words for a launcher that did not come up."""
        # TERM goes through sudo to the launcher; of a KILL only sudo itself would die.
        process.terminate()
        try:
            await asyncio.to_thread(process.wait, _END_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
        # By a signal; or it had come up, and ended in order because of one.
        killed = process.returncode is not None and process.returncode <= 0
        said = (await asyncio.to_thread(_last_words, errors)).splitlines()[-3:]
        why = " / ".join(said) or error.message
        if (exhausted := _shortage_in(why)) is not None:
            return exhausted
        if way_to(identity) == "sudo" and any(_is_refusal(line) for line in said):
            return refusal(identity, why)
        if killed or isinstance(error, TimedOut):
            return LauncherLost(f"the launcher of {identity.name} did not come up: {why}")
        return LauncherFailed(
            f"the launcher of {identity.name} did not come up: {why}",
            hint=f"Can {identity.name} read and run {executor_command()}?",
        )

    def _path(self, identity: UnixIdentity, *, preloaded: bool) -> Path:
        folders = self._folders
        folder = folders.preloaded_launchers if preloaded else folders.launchers
        return folder / f"{identity.name}.sock"

    async def _reap_soon(self) -> None:
        """Reap a launcher that has hung up: it is about to end."""
        for pause in _REAP_PAUSES:
            await asyncio.sleep(pause)
            self._reap()

    def _reap(self) -> None:
        for name, process in list(self._processes):
            if process.poll() is not None:
                self._processes.remove((name, process))
                if process.returncode != 0:
                    log.warning("launcher_died", user=name, exit_code=process.returncode)

    def _stop_watching(self) -> None:
        for watch in self._watches:
            watch.cancel()

    def disconnect(self) -> None:
        """Leave them running, for the daemon that comes after us."""
        self._stop_watching()
        for link in {*self._links.values(), *self._leaving}:
            link.close()
        for _, process in self._processes:
            # It outlives us; who is to be reaped by init must not be warned about here.
            process.returncode = process.poll() or 0
        self._processes.clear()

    async def retire(self) -> None:
        """End them, once what they started is gone; also those of earlier daemons."""
        self._stop_watching()
        folders = (self._folders.launchers, self._folders.preloaded_launchers)
        sockets = [path for folder in folders for path in folder.glob("*.sock")]
        await asyncio.gather(
            *(self._retire(path) for path in sockets),
            *(self._see_off(link) for link in self._leaving),
        )
        for name, process in self._processes:
            try:
                await asyncio.to_thread(process.wait, _END_TIMEOUT)
            except subprocess.TimeoutExpired:
                log.error("launcher_does_not_end", user=name, pid=process.pid)
                process.kill()
                await asyncio.to_thread(process.wait)
        self._processes.clear()

    async def _see_off(self, link: LauncherLink) -> None:
        """Wait for the end of one that was sent away already; it may be an earlier daemon's."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(link.wait_closed(), _END_TIMEOUT)
        if link.open:
            self.give_up(link)

    async def _retire(self, path: Path) -> None:
        link = self._links.get(path.stem)
        if link is None or not link.open or link.path != path:
            # One that we had no need to speak to yet, or that came up after we had given up.
            link = LauncherLink.connect(path)
        if link is not None:
            with contextlib.suppress(AgorError):
                await link.call(RETIRE, Nothing(), timeout=_END_TIMEOUT)
            try:
                await asyncio.wait_for(link.wait_closed(), _END_TIMEOUT)
            except TimeoutError:
                log.error("launcher_does_not_end", user=path.stem)
                return
            finally:
                link.close()
        path.unlink(missing_ok=True)  # noqa: ASYNC240 - one name in a folder of ours


def _shortage_in(words: str) -> ResourcesExhausted | None:
    """Return the error to raise if a launcher says that it ended for want of something.

    Python itself may be short of files, long before anything of ours runs.
    """
    if found := _ERRNO.search(words):
        return shortage(OSError(int(found[1]), ""))
    return run_out(errno.ENOMEM) if "MemoryError" in words else None


def _is_refusal(line: str) -> bool:
    """Tell sudo's no from a yes that came to nothing, for which another rule is no help."""
    return line.startswith("sudo: ") and "unable to execute" not in line


def _last_words(log: Path) -> str:
    return log.read_text(errors="replace").strip()
