"""People and how they come in, as the daemon's HTTP interface takes and gives them. Pure data."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from agor.protocol.api import Given, Id, Sent

Role = Literal["owner", "admin", "member", "viewer"]
#: What a share lets its holder do: look, or prompt as well.
ShareAccess = Literal["view", "prompt"]
#: Whose sessions: one's own, those shared with one, or all that one may look at.
Whose = Literal["mine", "shared", "all"]
#: How somebody has shown who they are.
Way = Literal["local_token", "api_token", "sign_in"]

SHORTEST_PASSWORD = 10
LONGEST_PASSWORD = 1024

#: The end, and not before a last line break, which Python lets pass as well.
_END = r"$(?!\n)"

UserName = Annotated[
    str,
    Meta(
        pattern=rf"^[A-Za-z0-9._@-]+{_END}",
        min_length=1,
        max_length=64,
        description="1 to 64 letters, digits, and . _ - @; small and capital ones are the same.",
    ),
]
UnixName = Annotated[
    str,
    Meta(
        pattern=rf"^[^\s:/\x00-\x20\x7f-][^\s:/\x00-\x20\x7f]*{_END}",
        min_length=1,
        max_length=256,
        description="A Unix user of this machine, neither root nor the daemon's own.",
    ),
]
Password = Annotated[str, Meta(min_length=SHORTEST_PASSWORD, max_length=LONGEST_PASSWORD)]
#: What somebody claims to be the password: one of another length is just a wrong one.
Claimed = Annotated[str, Meta(max_length=LONGEST_PASSWORD)]
TokenName = Annotated[str, Meta(min_length=1, max_length=100, pattern=rf"^[^\x00-\x1f\x7f]*{_END}")]
#: Milliseconds since 1970.
Time = Annotated[int, Meta(ge=0, le=2**53)]


class Confidential(Sent):
    """Base of what holds a secret: it never shows in a log or a traceback."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(…)"


# ── users ────────────────────────────────────────────────────────────────────────────────────


class NewUser(Confidential):
    """Somebody who shall be able to use this daemon."""

    name: UserName
    role: Role = "member"
    unix_username: UnixName | None = None
    password: Password | None = None


class UserChange(Sent):
    """What to change of a user; what is absent stays."""

    role: Role | UnsetType = UNSET
    unix_username: UnixName | UnsetType | None = UNSET
    disabled: bool | UnsetType = UNSET


class NewPassword(Confidential):
    """A password to set; one's own takes the current one as well."""

    password: Password
    current_password: Claimed | None = None


class User(Given):
    """Somebody who may use this daemon."""

    user_id: str
    name: str
    role: Role
    unix_username: str | None
    has_password: bool
    created_at: int
    disabled_at: int | None


class Me(User):
    """Who asks, and how they have shown that."""

    via: Way
    #: When this way in ends by itself; none if it does not.
    expires_at: int | None


# ── tokens ───────────────────────────────────────────────────────────────────────────────────


class NewToken(Sent):
    """A token for a program. Absent, `expires_at` is 90 days from now; null is never."""

    name: TokenName
    expires_at: Time | UnsetType | None = UNSET


class ApiToken(Given):
    """A token for a person's programs; the token itself is kept nowhere."""

    token_id: str
    user_id: str
    name: str
    created_at: int
    expires_at: int | None
    #: To the minute or so.
    last_used_at: int | None


class MadeToken(ApiToken):
    """A new token, with what is shown this once."""

    token: str

    def __repr__(self) -> str:
        return f"MadeToken({self.token_id!r}, …)"


# ── signing in ───────────────────────────────────────────────────────────────────────────────


class SignInRequest(Confidential):
    """Who wants to sign in: a name with its password, or a one-time code."""

    name: Annotated[str, Meta(min_length=1, max_length=64)] | None = None
    password: Claimed | None = None
    code: Id | None = None


class SignInCode(Given):
    """A code that signs in once, soon."""

    code: str
    expires_at: int

    def __repr__(self) -> str:
        return "SignInCode(…)"
