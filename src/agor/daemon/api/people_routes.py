"""The routes of people, how they come in, and their credentials."""

from __future__ import annotations

from agor.daemon.api import (
    auth,
    credentials,
    tokens,
    users,
)
from agor.daemon.api.forms import (
    CredentialQuery,
    DryRunQuery,
    NewCredentialQuery,
    PageQuery,
    TokensQuery,
)
from agor.daemon.api.route import Route
from agor.errors import (
    Conflict,
    MasterKeyUnusable,
    NotFound,
    StoreUnavailable,
    TooManyAttempts,
    Unauthenticated,
    Unprocessable,
)
from agor.protocol.api import (
    Page,
)
from agor.protocol.credentials import Credential, NewCredential, NewRotation, Rotation
from agor.protocol.people import (
    ApiToken,
    MadeToken,
    Me,
    NewPassword,
    NewToken,
    NewUser,
    SignInCode,
    SignInRequest,
    User,
    UserChange,
)

PEOPLE_ROUTES: list[Route] = [
    # ── people ───────────────────────────────────────────────────────────────────────────────
    Route(
        method="POST", path="/users", action="user.manage",
        handler=users.add,
        summary="Add a user",
        query=DryRunQuery, body=NewUser, result=User, status=201, confidential=True,
        errors=(Conflict, Unprocessable, StoreUnavailable),
    ),
    Route(
        method="GET", path="/users", action="user.list",
        handler=users.page,
        summary="List users, those first who were there first",
        query=PageQuery, result=Page[User], errors=(Unprocessable,),
    ),
    Route(
        method="GET", path="/users/{user_id}", action="user.view",
        handler=users.get,
        summary="Show a user",
        result=User, errors=(NotFound,),
    ),
    Route(
        method="PATCH", path="/users/{user_id}", action="user.manage",
        handler=users.change,
        summary="Change a user's role or Unix user, disable or enable them",
        details="A user who is disabled is refused at once, whatever token they have.",
        body=UserChange, result=User,
        errors=(NotFound, Conflict, Unprocessable, StoreUnavailable),
    ),
    Route(
        method="PUT", path="/users/{user_id}/password", action="user.set_password",
        handler=users.set_password,
        summary="Set a user's password",
        details="One's own takes the current one, unless it is asked with the local token. Every "
        "other sign-in of that user ends.",
        body=NewPassword, status=204, confidential=True,
        errors=(NotFound, Unprocessable, TooManyAttempts, StoreUnavailable),
    ),
    Route(
        method="POST", path="/tokens", action="token.make",
        handler=tokens.make,
        summary="Make a token for a program of yours; it is shown this once",
        body=NewToken, result=MadeToken, status=201, confidential=True,
        errors=(Conflict, Unprocessable, StoreUnavailable),
    ),
    Route(
        method="GET", path="/tokens", action="token.list",
        handler=tokens.page,
        summary="List your tokens, the newest first, or another user's",
        query=TokensQuery, result=Page[ApiToken], errors=(NotFound, Unprocessable),
    ),
    Route(
        method="DELETE", path="/tokens/{token_id}", action="token.revoke",
        handler=tokens.revoke,
        summary="Revoke a token, at once",
        status=204, errors=(NotFound, StoreUnavailable),
    ),
    Route(
        method="POST", path="/auth/login", action=None,
        handler=auth.login,
        summary="Sign a browser in, with a name and its password or a one-time code",
        details="The answer sets a cookie, which no script can read. A sign-in that the browser "
        "had before ends.",
        body=SignInRequest, result=Me, confidential=True,
        errors=(Unauthenticated, Unprocessable, TooManyAttempts, StoreUnavailable),
    ),
    Route(
        method="POST", path="/auth/logout", action="sign_in.end",
        handler=auth.logout,
        summary="Sign the browser out", status=204, confidential=True,
        errors=(Conflict, StoreUnavailable),
    ),
    Route(
        method="POST", path="/auth/link", action="sign_in.link",
        handler=auth.link,
        summary="Make a one-time code for a browser on this machine",
        details="With the local token only. It is good for a minute, and once.",
        result=SignInCode, confidential=True,
    ),
    Route(
        method="GET", path="/auth/me", action="user.view",
        handler=auth.me,
        summary="Tell who you are", result=Me,
    ),
    # ── credentials ──────────────────────────────────────────────────────────────────────────
    Route(
        method="GET", path="/credentials", action="credential.list",
        handler=credentials.page,
        summary="List one's own credentials and the team's, by name",
        details="Never their values. The team's is used where one has none of one's own.",
        result=Page[Credential], errors=(StoreUnavailable,),
    ),
    Route(
        method="PUT", path="/credentials/{name}", action="credential.keep",
        handler=credentials.put,
        summary="Keep a credential, in the place of what has this name now",
        details="All of it is replaced: a base URL or agents that are absent are so afterwards.",
        query=NewCredentialQuery, body=NewCredential, confidential=True, result=Credential,
        errors=(NotFound, Unprocessable, Conflict, StoreUnavailable, MasterKeyUnusable),
    ),
    Route(
        method="DELETE", path="/credentials/{name}", action="credential.keep",
        handler=credentials.delete,
        summary="Keep a credential no more",
        query=CredentialQuery, status=204, errors=(NotFound, StoreUnavailable),
    ),
    Route(
        method="POST", path="/credentials/rotation", action="credential.rotate",
        handler=credentials.rotate,
        summary="Seal all credentials with a new version of the master key",
        details="Answers as soon as the new version is safe; nothing stops meanwhile. If a "
        "rotation is under way, it is told how far that is.",
        body=NewRotation, body_optional=True, result=Rotation, status=202,
        errors=(StoreUnavailable, MasterKeyUnusable),
    ),
    Route(
        method="GET", path="/credentials/rotation", action="credential.rotate",
        handler=credentials.rotation,
        summary="Tell how far the credentials are on the newest version of the master key",
        result=Rotation, errors=(StoreUnavailable, MasterKeyUnusable),
    ),
]  # fmt: skip
