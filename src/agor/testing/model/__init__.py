"""The scripted model server: the providers' APIs, played from a script, on loopback.

`ModelServer` is to be used; docs/how-to/test-with-a-scripted-model.md shows how.

    script      what can be said            asked       what is asked, in no API's words
    choosing    which turn answers          playing     from a turn to the pieces of an answer
    dialects    one module per API          routing     which call a path means
    answering   from a request to an answer: all of the above, and no connection
    connection, server, records             the edge: HTTP, loopback, what was asked
"""

from agor.testing.model.connection import Bounds
from agor.testing.model.records import Request
from agor.testing.model.server import ModelServer

__all__ = ["Bounds", "ModelServer", "Request"]
