"""A JSON-RPC 2.0 peer: both ends may ask, both may notify. It knows no method.

`framing` cuts bytes into lines, `routes` says what is served, `inbound` and `outbound` are the two
directions of a conversation, `peer` joins them on a transport. The ways in are `unix`, `stdio` and
`memory`.
"""

from agor.rpc.limits import Limits
from agor.rpc.peer import Peer
from agor.rpc.routes import Routes

__all__ = ["Limits", "Peer", "Routes"]
