"""agor runs coding agents safely, for a whole team, on your own machines.

This is the public API. Whatever is not listed in `__all__` may change without notice.
"""

from agor.errors import AgorError, Disconnected, RpcError

__version__ = "0.1.0"

__all__ = ["AgorError", "Disconnected", "RpcError", "__version__"]
