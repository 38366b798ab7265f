"""Hands a secret to a program without anybody else seeing it.

What stands in an environment or an argument can be read by every process of the same user, and an
environment is passed on to whatever the program starts. Bytes in a pipe are read once and are gone.
"""

from __future__ import annotations

import asyncio
import os


class Handed:
    """Bytes that a program reads from a descriptor of its own."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        #: What the program inherits.
        self.descriptor, self._writing = os.pipe()

    @property
    def path(self) -> str:
        """The name of a file that has the bytes, for the program alone."""
        return f"/dev/fd/{self.descriptor}"

    async def pour(self) -> None:
        """Give the bytes, once the program has been started; it need not have read them."""
        loop = asyncio.get_running_loop()
        pipe = os.fdopen(self._writing, "wb", buffering=0)
        self._writing = -1
        transport, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, pipe)
        transport.write(self._data)
        # What was written is still delivered.
        transport.close()

    def close(self) -> None:
        """Let go of our ends; more than once is once."""
        for name in ("descriptor", "_writing"):
            if (number := getattr(self, name)) >= 0:
                setattr(self, name, -1)
                os.close(number)

    def __repr__(self) -> str:
        return f"Handed({len(self._data)} bytes)"
