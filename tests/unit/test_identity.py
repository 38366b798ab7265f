"""Who a command runs as, how we get there, and which variables it is given."""

from __future__ import annotations

import os

import pytest

from agor.environments.base import absolute
from agor.environments.identity import UnixIdentity, plain_environment, way_to
from agor.environments.snapshots import Mark, differences
from agor.errors import BadInput, UnknownUser

ADA = UnixIdentity("ada", 1234, 1235, (1235, 27), "/home/ada", "/bin/zsh")


def test_we_are_who_we_are():
    ours = UnixIdentity.current()
    assert (ours.uid, ours.gid) == (os.geteuid(), os.getegid())
    assert ours.gid in ours.groups
    assert UnixIdentity.of("root").uid == 0


def test_a_user_without_a_name_is_called_by_its_number(monkeypatch):
    # Nobody else's number: who a number is, is looked up once.
    monkeypatch.setattr(os, "geteuid", lambda: 2**31 - 8)
    monkeypatch.setenv("HOME", "/somewhere")
    ours = UnixIdentity.current()
    assert (ours.name, ours.home, ours.shell) == (str(2**31 - 8), "/somewhere", "/bin/sh")


@pytest.mark.parametrize("name", ["agor-no-such-user", "", "a\0b"])
def test_an_unknown_user_is_named(name):
    with pytest.raises(UnknownUser) as refused:
        UnixIdentity.of(name)
    assert repr(name) in refused.value.message
    assert refused.value.hint


@pytest.mark.parametrize(
    ("our_uid", "way"), [(1234, "self"), (0, "setuid"), (1000, "sudo"), (1235, "sudo")]
)
def test_the_way_depends_on_who_we_are(our_uid, way):
    assert way_to(ADA, our_uid) == way


def test_root_needs_no_way_to_root():
    assert way_to(UnixIdentity.of("root"), 0) == "self"


def test_by_default_the_way_is_ours():
    assert way_to(UnixIdentity.current()) == "self"


def test_the_plain_environment_is_the_users_and_nothing_secret_of_ours(monkeypatch):
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name in ("PATH", "LANG", "LC_ALL", "LC_TIME", "TZ", "TERM"):
        monkeypatch.setenv(name, f"our {name}")
    for name in ("HOME", "USER", "ANTHROPIC_API_KEY", "AGOR_HOME", "LD_PRELOAD", "LANGUAGE", "LC"):
        monkeypatch.setenv(name, "ours")
    assert plain_environment(ADA) == {
        "HOME": "/home/ada",
        "USER": "ada",
        "LOGNAME": "ada",
        "SHELL": "/bin/zsh",
        **{name: f"our {name}" for name in ("PATH", "LANG", "LC_ALL", "LC_TIME", "TZ", "TERM")},
    }


def test_what_we_do_not_have_is_left_out(monkeypatch):
    for name in list(os.environ):
        monkeypatch.delenv(name)
    assert plain_environment(ADA).keys() == {"HOME", "USER", "LOGNAME", "SHELL"}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a", "/ws/a"),
        (".", "/ws"),
        ("", "/ws"),
        ("./a//b/", "/ws/a/b"),
        ("../a", "/ws/../a"),
        ("/a", "/a"),
        ("~/a", "/ws/~/a"),
    ],
)
def test_relative_paths_are_below_the_workspace(path, expected):
    assert absolute("/ws", path) == expected


def test_a_zero_byte_is_no_part_of_a_path():
    with pytest.raises(BadInput):
        absolute("/ws", "a\0")


def test_two_moments_differ_by_what_came_changed_and_went():
    file, folder = Mark("file", 1, 1.0, 1), Mark("folder", 1, 1.0, 2)
    before = {"same": file, "gone": file, "changed": file, "kind": file, "folder": folder}
    after = {
        "same": file,
        "new": file,
        "changed": file._replace(modified=2.0),
        "kind": folder,
        "folder": folder._replace(modified=2.0, size=9),
    }
    assert [(change.kind, change.path) for change in differences(before, after)] == [
        ("changed", "changed"),
        ("deleted", "gone"),
        ("changed", "kind"),
        ("added", "new"),
    ]
