"""A daemon with several people, for another process to ask: see `people_site`.

The first line of standard input says where it lives and who there is. It serves until standard
input ends.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import uvloop

from agor import logs
from agor.config.keys import build
from agor.daemon.api.server import ApiServer
from agor.daemon.api.settings import ApiSettings
from agor.daemon.main import Daemon
from agor.daemon.services.people.people import principal
from agor.home import Home
from agor.protocol.people import NewToken, NewUser


async def main() -> None:
    # Standard output is for whoever runs us.
    logs.configure("info", "console")
    told = json.loads(sys.stdin.readline())
    home = Home(Path(told["home"]))
    home.prepare()
    daemon = Daemon(build(told["config"]), home)
    async with daemon.working() as owner:
        tokens = {"owner": home.token()}
        for name, (role, unix_username) in told["people"].items():
            row = daemon.people.named(name)
            if row is None:
                new = NewUser(name=name, role=role, unix_username=unix_username)
                person = await daemon.accounts.add(owner, new)
                row = daemon.people.get(person.user_id)
            who = principal(row)
            tokens[name] = (await daemon.api_tokens.make(who, NewToken(name="test"))).token
        server = ApiServer(daemon.app(ApiSettings()))
        port = await server.start("127.0.0.1", 0)
        print(json.dumps({"port": port, "tokens": tokens}), flush=True)
        await asyncio.to_thread(sys.stdin.read)
        await server.stop(2.0)


if __name__ == "__main__":
    uvloop.run(main())
