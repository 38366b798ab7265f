"""What requests leave behind: nothing that only the collector could find.

With a few objects in a circle for each request, a busy daemon spends more on looking for garbage
than on some of its answers.
"""

from __future__ import annotations

import gc
import json

import pytest

from tests.api.raw import RawConnection, spelled
from tests.api.serving import Served

REQUESTS = 50


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("POST", "/sessions", 201), ("GET", "/sessions", 200), ("GET", "/sessions/none", 404)],
)
async def test_a_request_leaves_nothing_in_a_circle(
    served: Served, method: str, path: str, status: int
):
    new = {"agentic_tool": "scripted", "workspace": str(served.folder)}
    body = json.dumps(new).encode() if method == "POST" else None
    request = spelled(method, path, served.token, body)

    async with await RawConnection.open(served.port) as connection:

        async def ask() -> None:
            await connection.send(request)
            assert (await connection.answer()).status == status

        # What is made once, and kept.
        for _ in range(5):
            await ask()
        gc.collect()
        gc.disable()
        try:
            for _ in range(REQUESTS):
                await ask()
            assert gc.collect() < REQUESTS
        finally:
            gc.enable()
