"""Hands a secret to a program without anybody else seeing it.

What stands in an environment or an argument can be read by every process of the same user, and an
environment is passed on to whatever the program starts. Bytes in a pipe are read once and are gone;
a file in memory can be read as often as the program likes, and has a name for the program alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass


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


@dataclass(frozen=True)
class Files:
    """Files in memory for a program: their paths, by name, and what it inherits."""

    paths: dict[str, str]
    descriptors: tuple[int, ...]


@contextlib.contextmanager
def handed_files(texts: Mapping[str, str]) -> Iterator[Files]:
    """Make files for a program that is started within; afterwards only it has them."""
    descriptors: dict[str, int] = {}
    try:
        for name, text in texts.items():
            descriptors[name] = os.memfd_create("handed", os.MFD_CLOEXEC)
            os.write(descriptors[name], text.encode())
        paths = {name: f"/proc/self/fd/{number}" for name, number in descriptors.items()}
        yield Files(paths, tuple(descriptors.values()))
    finally:
        for number in descriptors.values():
            os.close(number)
