"""agor runs coding agents safely, for a whole team, on your own machines.

This is the public API, together with `agor.client`, which is imported by those who need it: it is
heavy. Whatever else is not listed in `__all__` may change without notice.
"""

from agor.errors import AgorError, Disconnected, RpcError

__version__ = "0.1.0"

__all__ = ["AgorError", "Disconnected", "RpcError", "__version__"]
