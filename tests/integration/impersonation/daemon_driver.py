"""A daemon with several people, for another process to ask: see `people_site`.

The first line of standard input says where it lives and who there is. It serves until standard
input ends.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import uvloop

from agor.config.keys import build
from agor.daemon.api.app import App
from agor.daemon.api.server import ApiServer
from agor.daemon.api.settings import ApiSettings
from agor.daemon.main import Daemon
from agor.daemon.services.people.people import principal
from agor.daemon.services.principal import Principal
from agor.daemon.store import users
from agor.daemon.store.base import Write
from agor.daemon.store.rows import UserRow
from agor.errors import Unauthenticated
from agor.home import Home


class ByName:
    """Takes a person's name for their token."""

    def __init__(self, people: dict[str, Principal]) -> None:
        self._people = people

    def authenticate(self, *asked: Any) -> Principal:
        headers = next((each for each in asked if isinstance(each, Mapping)), None)
        token = asked[0] if headers is None else headers[b"authorization"].decode().split()[1]
        if token not in self._people:
            raise Unauthenticated("this token is not known")
        return self._people[token]


async def main() -> None:
    told = json.loads(sys.stdin.readline())
    home = Home(Path(told["home"]))
    home.prepare()
    daemon = Daemon(build(told["config"]), home)
    async with daemon.working() as owner:
        people = {"owner": owner}
        for name, (role, unix_username) in told["people"].items():
            row = UserRow(
                user_id=f"id-of-{name}", name=name, role=role, unix_username=unix_username,
                created_at=2**41,
            )  # fmt: skip
            await daemon.store.commit(Write([users.insert(row)]))
            people[name] = principal(row)
        await daemon.people.open()
        app = App(daemon.services(), ByName(people), ApiSettings())  # type: ignore[arg-type]
        server = ApiServer(app)
        port = await server.start("127.0.0.1", 0)
        print(json.dumps({"port": port}), flush=True)
        await asyncio.to_thread(sys.stdin.read)
        await server.stop(2.0)


if __name__ == "__main__":
    uvloop.run(main())
