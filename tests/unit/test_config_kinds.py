"""What values settings can have, in YAML and as a person types them."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agor.config.database_url import DatabaseUrl, kind_of_url, without_password
from agor.config.keys import KEYS, Key
from agor.config.kinds import (
    Choice,
    Flag,
    HostNames,
    Kind,
    ListenAddress,
    Number,
    Optional,
    Size,
    SocketTemplate,
    UserName,
    Whole,
)

MEMORY = Size(16 * 1024**2, 2**60)


@pytest.mark.parametrize(
    ("kind", "typed", "value"),
    [
        (Flag(), "true", True),
        (Flag(), "FALSE", False),
        (Whole(1, 10), "10", 10),
        (Whole(-5, 5), "-5", -5),
        (Number(0.01, 10), "0.5", 0.5),
        (Number(0.01, 10), "2", 2.0),
        (Number(0.01, 10), ".5", 0.5),
        (MEMORY, "2G", 2 * 1024**3),
        (MEMORY, "1.5g", 1536 * 1024**2),
        (MEMORY, "512 MiB", 512 * 1024**2),
        (MEMORY, "20000K", 20000 * 1024),
        (MEMORY, "17000000", 17000000),
        (Choice("a", "b"), "b", "b"),
        (UserName(), "ada", "ada"),
        (UserName(), "ADS\\ada", "ADS\\ada"),
        (UserName(), "ada@example.org", "ada@example.org"),
        (ListenAddress(), "127.0.0.53", "127.0.0.53"),
        (ListenAddress(), "::1", "::1"),
        (ListenAddress(), "localhost", "localhost"),
        (ListenAddress(), "0.0.0.0", "0.0.0.0"),
        (HostNames(), "Agor.Example.org, 10.0.0.1,::1", ("agor.example.org", "10.0.0.1", "::1")),
        (HostNames(), "none", ()),
        (SocketTemplate(), "{runtime}/x/{id}.sock", "{runtime}/x/{id}.sock"),
        (SocketTemplate(), "/run/agor/{id}", "/run/agor/{id}"),
        (Optional(Whole(1, 10)), "none", None),
        (Optional(Whole(1, 10)), "7", 7),
        (DatabaseUrl(), "sqlite:///{home}/agor.db", "sqlite:///{home}/agor.db"),
        (DatabaseUrl(), "sqlite:////srv/a b.db", "sqlite:////srv/a b.db"),
        (DatabaseUrl(), "postgresql://u:p%40@h:5432/d", "postgresql://u:p%40@h:5432/d"),
        (DatabaseUrl(), "postgresql:///d?host=/tmp", "postgresql:///d?host=/tmp"),
    ],
)
def test_what_is_allowed_is_taken_as_it_was_meant(kind: Kind, typed: str, value: object):
    read = kind.read(kind.parse(typed))
    assert (read, type(read)) == (value, type(value))


def takes(kind: Kind, value: object) -> bool:
    try:
        kind.read(value)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (Flag(), ["yes", "1", 1, 0, None, "", []]),
        (Whole(1, 10), [0, 11, 1.0, True, "5", None, [5]]),
        (Number(0.01, 10), [0, 11, True, "1", float("nan"), float("inf"), None]),
        (MEMORY, [16, 1.5, True, "2", "2X", "G", "-2G", "2 G G", None, 2**60 + 1, "9999999T"]),
        (Choice("a", "b"), ["c", "A", "", None, 1]),
        (UserName(), ["", "-rf", "a b", "a:b", "a/b", "a\nb", "a\x1bb", 1000, None, "x" * 300]),
        (ListenAddress(), ["example.org", "[::1]", "127.0.0.1:80", "", None, 2130706433]),
        (
            HostNames(),
            ["a.org", 5, ["a.org:80"], ["http://a"], ["a b"], [""], ["-a"], [5], ["a"] * 101],
        ),
        (
            SocketTemplate(),
            ["/x", "x/{id}", "{id}", "/{id}/{user}", "/{id!r}", "/{id:>9}", "/{id", "/{}{id}", 5],
        ),
        (
            DatabaseUrl(),
            [
                "agor.db",
                "sqlite:///agor.db",
                "sqlite:////",
                "sqlite://",
                "mysql://u@h/d",
                "postgres://u@h/d",
                "postgresql://u:p@h:port/d",
                "postgresql://u:p#w@h/d",
                "postgresql://u:p/w@h/d",
                "postgresql://u:1/w@h/d",
                "postgresql://u:p?w@h/d",
                "postgresql://u:p w@h/d",
                "postgresql://h/d\x1b",
                None,
                5,
            ],
        ),
        (Optional(Whole(1, 10)), [0, "none", True]),
    ],
)
def test_what_is_not_allowed_is_refused(kind: Kind, values: list[object]):
    assert [value for value in values if takes(kind, value)] == []


@pytest.mark.parametrize("key", KEYS.values(), ids=lambda key: key.name)
def test_a_default_is_allowed_and_reads_as_it_is_shown(key: Key):
    assert key.kind.read(key.default) == key.default
    assert key.kind.read(key.kind.parse(key.kind.show(key.default))) == key.default


@given(st.integers(16 * 1024**2, 2**60))
def test_a_size_reads_as_it_is_shown(size: int):
    assert MEMORY.read(MEMORY.parse(MEMORY.show(size))) == size


@pytest.mark.parametrize("key", KEYS.values(), ids=lambda key: key.name)
@given(text=st.text() | st.from_regex(r"[+-]?\d*\.?\d*[KMGTe]?\d*", fullmatch=True))
@example(text="9" * 5000)
def test_whatever_is_typed_is_taken_or_refused(key: Key, text: str):
    try:
        value = key.kind.read(key.kind.parse(text))
    except ValueError:
        return
    assert key.kind.read(key.kind.parse(key.kind.show(value))) == value or key.kind.secret


# ── passwords ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:secret@h/d", "postgresql://u:***@h/d"),
        ("postgresql://u:se:cr:et@h:1/d?a=b", "postgresql://u:***@h:1/d?a=b"),
        ("postgresql://u:se@cret@h/d", "postgresql://u:***@h/d"),
        ("postgresql://u@h/d", "postgresql://u@h/d"),
        (
            "postgresql:///d?host=/tmp&password=secret&sslPassword=secret&x=1",
            "postgresql:///d?host=/tmp&password=***&sslPassword=***&x=1",
        ),
        ("sqlite:////a/b@c:d.db", "sqlite:////a/b@c:d.db"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str):
    assert DatabaseUrl().show(DatabaseUrl().read(url)) == shown


@given(
    password=st.text(min_size=1, max_size=20).map(lambda text: f"SECRET{text}SECRET"),
    form=st.sampled_from(
        [
            "postgresql://u:{}@h/d",
            "postgresql://{}:{}@h/d",
            "postgresql:///d?password={}",
            "postgresql://u@h/d?x=y&password={}&z=1",
        ]
    ),
)
def test_no_password_is_shown_whatever_is_in_it(password: str, form: str):
    url = form.replace("{}", "user", form.count("{}") - 1).replace("{}", password)
    try:
        DatabaseUrl().read(url)
    except ValueError:
        return
    assert "SECRET" not in without_password(url)


def test_only_the_scheme_of_a_url_is_told():
    assert kind_of_url("mysql://u:secret@h") == "mysql"
    assert kind_of_url("secret") is None
    assert kind_of_url("secret:secret@h") is None
