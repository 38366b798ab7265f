"""Signing in and out, and who one is."""

from __future__ import annotations

from agor.daemon.api import cookies
from agor.daemon.api.route import Reply, Request
from agor.daemon.services.people.api_tokens import hash_of
from agor.daemon.services.people.sign_ins import LIFE
from agor.errors import Unprocessable
from agor.protocol.people import Me, SignInCode, SignInRequest


async def login(request: Request[SignInRequest]) -> Reply:
    """Sign a browser in: it gets a new cookie, and that which it had is good no more."""
    services, asked = request.services, request.form
    shown = cookies.read(request.headers, request.https)
    old = None if shown is None else services.sign_ins.find(hash_of(shown))
    match asked:
        case SignInRequest(name=None, password=None, code=str(code)):
            signed_in = await services.signing_in.by_code(code, request.address, old)
        case SignInRequest(name=str(name), password=str(password), code=None):
            signed_in = await services.signing_in.by_password(name, password, request.address, old)
        case _:
            raise Unprocessable("body: expected name and password, or code")
    cookie = cookies.give(request.headers, request.https, signed_in.secret, LIFE // 1000)
    return Reply(200, services.identity(signed_in.who), [cookie])


async def logout(request: Request[None]) -> Reply:
    """Sign the browser out that asks."""
    await request.services.signing_in.end(request.who)
    return Reply(204, None, [cookies.take_away(request.headers, request.https)])


async def link(request: Request[None]) -> SignInCode:
    """Make a code that signs a browser of this machine in."""
    return request.services.signing_in.make_code(request.who)


async def me(request: Request[None]) -> Me:
    """Tell who asks."""
    return request.services.identity(request.who)
