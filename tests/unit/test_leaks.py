"""The search for a secret finds it wherever it is planted, however it is spelled."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest

from agor.leaks import Seeker

SECRET = 'k3y/+"\\ ü-0f1e2d3c4b5a69788796a5b4c3d2e1f0-END'
PLAIN = SECRET.encode()

PLANTED = {
    "plain": PLAIN,
    "in the middle": b"x" * 1000 + PLAIN + b"y" * 1000,
    "json": json.dumps({"a": SECRET}).encode(),
    "json in json": json.dumps(json.dumps(SECRET)[1:-1][12:]).encode(),
    "utf-16": SECRET.encode("utf-16-le"),
    "utf-16 the other way": SECRET.encode("utf-16-be"),
    "hex": PLAIN.hex().encode(),
    "HEX": PLAIN.hex().upper().encode(),
    "url": quote(SECRET).encode(),
    "url, every byte": "".join(f"%{byte:02x}" for byte in PLAIN).encode(),
    "unicode escapes": "".join(f"\\u{ord(each):04x}" for each in SECRET).encode(),
    "python": repr(SECRET).encode(),
    **{f"base64 behind {n}": base64.b64encode(b"z" * n + PLAIN + b"tail") for n in range(6)},
    "base64 for URLs": base64.urlsafe_b64encode(b"z" + PLAIN),
    "its beginning": PLAIN[:40],
    "its end": PLAIN[-33:],
}


@pytest.mark.parametrize("planted", PLANTED.values(), ids=PLANTED.keys())
def test_it_is_found_in_bytes(planted: bytes) -> None:
    seeker = Seeker(SECRET)
    seeker.look_at("there", planted)
    assert [leak.where for leak in seeker.leaks][:1] == ["there"]
    assert not any(SECRET in str(leak) for leak in seeker.leaks)


@pytest.mark.parametrize(
    "innocent",
    [b"", b"END", PLAIN[-4:], PLAIN[:15], base64.b64encode(b"another secret altogether")],
)
def test_what_is_not_there_is_not_found(innocent: bytes) -> None:
    seeker = Seeker(SECRET)
    seeker.look_at("there", innocent)
    assert seeker.leaks == []
    assert seeker.seen["texts"] == 1


@pytest.mark.parametrize(
    "place",
    [
        "agor.db", "agor.db-wal", "agor.db-shm", "agor.db.bak", "logs/daemon.log", "config.yaml",
        "run/executors/ab/crash", ".hidden/core", "a name with\nodd signs",
    ],
)  # fmt: skip
def test_it_is_found_in_any_file_below_a_folder(tmp_path: Path, place: str) -> None:
    path = tmp_path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\0" * 5000 + PLAIN)
    (tmp_path / "innocent").write_text("nothing")
    seeker = Seeker(SECRET)
    seeker.look_below(tmp_path)
    assert {leak.where for leak in seeker.leaks} == {str(path)}
    assert seeker.seen["files"] == 2
    assert seeker.seen["bytes"] == 5000 + len(PLAIN) + 7


def test_it_is_found_across_two_pieces_of_a_large_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agor.leaks._CHUNK", 64)
    for before in range(64):
        path = tmp_path / "large"
        path.write_bytes(b"x" * before + PLAIN + b"y" * 100)
        seeker = Seeker(SECRET)
        seeker.look_at_file(path)
        assert seeker.leaks, before


def test_it_is_found_in_the_name_of_a_file(tmp_path: Path) -> None:
    (tmp_path / PLAIN.hex()).touch()
    seeker = Seeker(SECRET)
    seeker.look_below(tmp_path)
    assert [leak.spelling for leak in seeker.leaks][:1] == ["hexadecimal"]


def test_links_sockets_and_pipes_are_left_alone(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(PLAIN)
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link").symlink_to(outside)
    (inside / "folder").symlink_to(tmp_path)
    os.mkfifo(inside / "pipe")
    seeker = Seeker(SECRET)
    seeker.look_below(inside)
    assert seeker.leaks == []
    assert seeker.seen["files"] == 0


@pytest.mark.parametrize(
    ("arguments", "environment", "name"),
    [([SECRET], {}, "cmdline"), (["-"], {"KEY": SECRET}, "environ")],
)
def test_it_is_found_in_a_process(
    arguments: list[str], environment: dict[str, str], name: str
) -> None:
    script = ["sh", "-c", "read line", "sh", *arguments]
    with subprocess.Popen(
        script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | environment
    ) as holder:
        seeker = Seeker(SECRET)
        seeker.look_at_processes()
        assert f"/proc/{holder.pid}/{name}" in {leak.where for leak in seeker.leaks}
        assert seeker.seen["command lines"] > 1
        assert seeker.seen["environments"] > 1
        holder.communicate(b"\n", timeout=20)
