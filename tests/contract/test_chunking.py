"""However the same bytes are cut into reads, the same answers come out."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agor.rpc import Limits, Peer
from tests.contract.drawn_lines import cut, lines
from tests.contract.service import Service
from tests.contract.waiting import soon, turns

SETTINGS = settings(
    max_examples=200, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
LIMITS = Limits(max_line=200)


async def answers_to(chunks: list[bytes]) -> tuple[list[Any], str, list[bytes]]:
    """Say chunks, a read each; return the answers, the kind of end, and what was passed on."""
    loop, service = asyncio.get_running_loop(), Service()
    here, there = socket.socketpair()
    _, peer = await loop.create_unix_connection(lambda: Peer(service.routes, LIMITS), sock=there)
    with here:
        for chunk in chunks:
            here.sendall(chunk)
            await turns(2)
        here.shutdown(socket.SHUT_WR)
        here.setblocking(False)
        answers = b""
        while data := await soon(loop.sock_recv(here, 65536)):
            answers += data
    ending = await soon(peer.wait_closed())
    return [json.loads(line) for line in answers.splitlines()], ending.code, service.passed_on


passed_on = st.text(max_size=20).map(
    lambda text: b'{"jsonrpc":"2.0","method":"passed_on","params":{"t":"'
    + text.encode("utf-8", "surrogatepass").replace(b"\n", b"") + b'"}}'
)  # fmt: skip
long_lines = st.integers(150, 450).map(
    lambda size: b'{"jsonrpc":"2.0","method":"get_data","id":1,"x":"' + b"y" * size + b'"}'
)
streams = st.builds(
    lambda several, last: b"\n".join([*several, last]),
    st.lists(lines | passed_on | long_lines, max_size=6),
    st.just(b"") | lines | long_lines,
)


@SETTINGS
@given(data=streams, places=st.lists(st.integers(0, 5000), max_size=12))
@example(data='{"jsonrpc":"2.0","method":"passed_on","params":{"t":"ü"}}\n'.encode(), places=[54])
@example(data=b'{"jsonrpc":"2.0","method":"passed_on","params":{"t":"\xc3"}}\n', places=[54])
@example(data=b"x" * 200 + b"\n" + b"x" * 201 + b"\n", places=[200, 201, 402])
def test_any_cut_gives_the_same_answers_and_the_same_end(data: bytes, places: list[int]):
    whole = asyncio.run(answers_to([data] if data else []))
    assert asyncio.run(answers_to(cut(data, places))) == whole


@settings(SETTINGS, max_examples=50)
@given(data=streams)
def test_one_byte_at_a_time_gives_the_same_answers_and_the_same_end(data: bytes):
    whole = asyncio.run(answers_to([data] if data else []))
    assert asyncio.run(answers_to([bytes([byte]) for byte in data])) == whole
