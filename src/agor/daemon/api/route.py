"""What a route is: everything about it that the dispatch, the documents and the reader need."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from agor.daemon.api.answers import JSON, HeaderList, Receive, Scope, Send
from agor.daemon.api.reading import BodyReader, NoQuery, QueryReader
from agor.daemon.services.access import Action
from agor.daemon.services.principal import Principal
from agor.daemon.services.receipts import Receipt
from agor.errors import AgorError

if TYPE_CHECKING:
    from agor.daemon.api.live import LiveFeeds
    from agor.daemon.api.services import Services
    from agor.daemon.api.table import Table

Form = TypeVar("Form")

#: The method under which a WebSocket's handshake is found. It is never on the wire.
WEBSOCKET = "WEBSOCKET"


@dataclass(slots=True)
class Request(Generic[Form]):
    """A request that has been let in and read: what a handler gets.

    `form` is the body, or the query of a route that takes no body; `query` is always the query.
    """

    services: Services
    table: Table
    ids: tuple[str, ...]
    headers: Mapping[bytes, bytes]
    principal: Principal | None
    form: Form
    receipt: Receipt | None = None
    #: Where it comes from.
    address: str = ""
    #: Whether the browser talks HTTPS, to a proxy in front of us.
    https: bool = False
    query: Any = None

    @property
    def id(self) -> str:
        """What the path names."""
        return self.ids[0]

    @property
    def who(self) -> Principal:
        """Who asks. Only routes that need a token may ask for it."""
        assert self.principal is not None, "this route needs no token"
        return self.principal


@dataclass(frozen=True, slots=True)
class Reply:
    """A result with another status than the route's own, or with headers of its own."""

    status: int
    result: Any
    headers: HeaderList = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Connection:
    """What an answer that goes on for long needs of the connection."""

    scope: Scope
    receive: Receive
    send: Send
    feeds: LiveFeeds


#: Gives the result, or bytes where the route's `media` is not JSON.
Handler = Callable[[Request[Any]], Awaitable[Any]]
#: Gives an answer that goes on until one of the two has enough of it.
Stream = Callable[[Request[Any], Connection], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Route:
    """One row of the table."""

    method: str
    #: With `{…}` for what a request names.
    path: str
    #: What whoever asks must be allowed to do; none if strangers may ask as well.
    action: Action | None
    handler: Handler | None = None
    stream: Stream | None = None
    summary: str
    #: More about it, for the documents.
    details: str = ""
    query: type[Any] | None = None
    body: type[Any] | None = None
    #: Whether no body is the same as an empty one.
    body_optional: bool = False
    result: Any = None
    status: int = 200
    #: Further statuses, each with the form of its result.
    also: Mapping[int, Any] = field(default_factory=dict)
    #: What the service behind it may raise, beside what every route may answer.
    errors: tuple[type[AgorError], ...] = ()
    media: str = JSON
    headers: HeaderList = field(default_factory=list)
    #: Whether a secret is in what it takes or gives: then nothing of it may be kept as a receipt,
    #: nor repeated, whatever is wrong with it.
    confidential: bool = False

    def __post_init__(self) -> None:
        assert (self.handler is None) is not (self.stream is None)
        assert self.body is None or self.method in ("POST", "PATCH", "PUT")

    @cached_property
    def name(self) -> str:
        """Name it, for metrics and receipts."""
        return f"{self.method} {self.path}"

    @property
    def token(self) -> bool:
        """Whether only those may ask who have shown who they are."""
        return self.action is not None

    @property
    def takes_key(self) -> bool:
        """Whether it honours an Idempotency-Key."""
        return self.method == "POST" and not self.confidential

    @cached_property
    def read_query(self) -> QueryReader:
        """Reads what is behind the question mark."""
        return QueryReader(self.query or NoQuery)

    @cached_property
    def read_body(self) -> BodyReader:
        """Reads the body."""
        assert self.body is not None
        return BodyReader(self.body, secret=self.confidential)
