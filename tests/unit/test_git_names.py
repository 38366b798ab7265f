"""Names, branches and addresses that people give: what tries to escape is refused, in words."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agor.daemon.git.addresses import read_address
from agor.daemon.git.names import check_branch, check_name, check_revision, name_from, shown
from agor.errors import Unprocessable

ESCAPES = [
    "../up", "..", ".", "a/../b", "/etc", "a/b", "-x", "--force", "", " ", "a b", "a\nb", "a\0b",
    "a\x1bb", "a\x7fb", ".git", "x.git", "x.GIT", ".hidden", "x.lock", "x..y", "x.", "@{u}", "ä",
    "\udcff", "x" * 65, "a\\b", "~root", "$HOME", "a;b", "a*",
]  # fmt: skip


@pytest.mark.parametrize("name", ESCAPES)
def test_a_name_that_could_escape_is_refused_with_what_it_may_be(name: str) -> None:
    with pytest.raises(Unprocessable, match=r"^name: ") as refused:
        check_name("name", name)
    assert refused.value.hint
    assert len(refused.value.message) < 300


@pytest.mark.parametrize("name", ["a", "login-2", "v1.2.3", "Fix_it", "x" * 64, "0"])
def test_a_plain_name_is_taken(name: str) -> None:
    assert check_name("name", name) == name


@given(st.text())
def test_whatever_a_folder_is_called_a_name_can_be_made_of_it(text: str) -> None:
    assert check_name("name", name_from(text))


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("/home/x/shop", "shop"), ("https://h/acme/shop.git", "shop"), ("git@h:shop.git", "shop"),
        ("/srv/shop.git/", "shop"), ("/x/mein laden", "mein-laden"), ("/", "repository"),
        ("/x/..", "repository"), ("/x/a.lock", "a"),
    ],
)  # fmt: skip
def test_a_name_is_made_of_the_last_part_of_a_path_or_an_address(source: str, name: str) -> None:
    assert name_from(source) == name


BAD_BRANCHES = [
    "../x", "a..b", "-x", "--all", "", "a b", "a\tb", "a\nb", "a\0b", "a\x7fb", ".a", "a/.b",
    "a.lock", "a.lock/b", "a/b.lock", "@", "a@{1}", "@{-1}", "HEAD", "a~1", "a^", "a:b", "a?", "a*",
    "a[b", "a\\b", "/a", "a/", "a//b", "a.", "refs/heads/a", "\udcff", "x" * 201, "ä" * 101,
]  # fmt: skip


@pytest.mark.parametrize("branch", BAD_BRANCHES)
def test_a_branch_that_git_or_a_path_would_trip_over_is_refused(branch: str) -> None:
    with pytest.raises(Unprocessable, match=r"^branch: ") as refused:
        check_branch(branch)
    assert refused.value.hint


@pytest.mark.parametrize(
    "branch", ["a", "fix/login", "agor/w-1", "größe", "a@b", "v1.2", "a-b/c_d"]
)
def test_a_branch_that_git_takes_is_taken(branch: str) -> None:
    assert check_branch(branch) == branch


@given(st.text(max_size=12))
def test_git_takes_every_branch_that_we_take(text: str) -> None:
    try:
        check_branch(text)
    except Unprocessable:
        return
    asked = ["git", "check-ref-format", f"refs/heads/{text}"]
    assert subprocess.run(asked, timeout=20, check=False).returncode == 0


@pytest.mark.parametrize("revision", ["-x", "--all", "", "a b", "a\nb", ":x", "HEAD:file", "\udcff",
                                      "HEAD^{/secret}", "x" * 251])  # fmt: skip
def test_a_base_that_is_no_commit_but_an_option_or_a_file_is_refused(revision: str) -> None:
    with pytest.raises(Unprocessable, match=r"^base: "):
        check_revision("base", revision)


@pytest.mark.parametrize("revision", ["main", "origin/main", "v1", "HEAD~3", "3f2c1ab", "main@{1}"])
def test_a_base_that_can_be_a_commit_is_left_to_git(revision: str) -> None:
    assert check_revision("base", revision) == revision


# ── addresses ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c touch% /tmp/x", "ext::sh", "fd::17", "-oProxyCommand=x", "--upload-pack=x",
        "http://host/x", "git://host/x", "ftp://host/x", "file://host/x", "relative/path", "x",
        "ssh://-oProxyCommand=x/y", "ssh://host/-x", "git@-host:x", "git@host:-x", "git@host::x",
        "https://host", "https:///x", "https://ho st/x", "https://host/x\ny", "transport::https://x",
        "", "javascript:x", "https://host/" + "x" * 2048, "host:path", "C:\\x", "/a/../b",
    ],
)  # fmt: skip
def test_an_address_that_runs_something_or_goes_another_way_is_refused(url: str) -> None:
    with pytest.raises(Unprocessable, match=r"^url: "):
        read_address(url)


@pytest.mark.parametrize(
    "url",
    ["https://anna:hunter2@host/x", "https://ghp_hunter2@host/x", "ssh://git:hunter2@host/x",
     "https://host/x?token=hunter2"],
)  # fmt: skip
def test_an_address_with_a_secret_in_it_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(Unprocessable, match="password or a token") as refused:
        read_address(url)
    assert "hunter2" not in f"{refused.value.message}{refused.value.hint}"


@pytest.mark.parametrize(
    ("url", "protocol"),
    [
        ("https://host/acme/shop.git", "https"), ("https://host:8443/x", "https"),
        ("ssh://git@host:2222/x", "ssh"), ("ssh://host/~x/y", "ssh"), ("git@host:a/x.git", "ssh"),
        ("/srv/git/x.git", "file"), ("file:///srv/x", "file"), ("https://[::1]/x", "https"),
    ],
)  # fmt: skip
def test_an_address_may_use_its_own_protocol_and_no_other(url: str, protocol: str) -> None:
    assert read_address(url) == (url, protocol)


def test_odd_bytes_of_a_path_are_shown_as_what_they_are() -> None:
    assert shown(b"caf\xc3\xa9 \xff.txt") == "café \\xff.txt"
