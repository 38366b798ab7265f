"""A JSON-RPC 2.0 peer: both ends may ask, both may notify. It knows no method.

`framing` cuts bytes into lines, `inbound` makes messages of them, `serving` carries them out by the
table in `routes`; `outbound` waits for answers to our own, `writer` writes; `peer` joins all on a
transport. The ways in are `unix` with `listener`, `stdio` and `memory`.
"""

from agor.rpc.limits import Limits
from agor.rpc.peer import Peer
from agor.rpc.routes import Routes

__all__ = ["Limits", "Peer", "Routes"]
