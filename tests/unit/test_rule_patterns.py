"""The language of rules: what a `*` stands for, and what it never does."""

from __future__ import annotations

import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agor.daemon.services.rules import patterns
from agor.daemon.services.rules.matching import allowing, denying
from agor.daemon.services.rules.reading import Reading

WORKSPACE = "/repo"


def allows(member: str, pattern: str, value: object) -> bool:
    return allowing(member, pattern)(Reading(value, WORKSPACE))


def denies(pattern: str, value: object) -> bool:
    return denying(pattern)(Reading(value, WORKSPACE))


#: A pattern for a command, what it is for, and what people would not want it to be for.
COMMANDS: list[tuple[str, list[object], list[object]]] = [
    (
        "git status",
        ["git status"],
        ["git status ", " git status", "git  status", "git status -s", "GIT STATUS", "", None],
    ),
    (
        "git status*",
        ["git status", "git status -s", "git status --short src/a.py"],
        [
            "git statusx", "git status-all", "git status; rm -rf /", "git status;rm",
            "git status && x",
            "git status & x", "git status | sh", "git status || x", "git status > /etc/passwd",
            "git status < /etc/passwd", "git status $(rm x)", "git status ${IFS}",
            "git status `rm x`",
            "git status\nrm x", "git status \n rm x", "git status\r\nrm x", "git status -s\nrm x",
            "git status \\\n; rm x", "git status (x)", "git status {a,b}", "git status\trm",
            "git status\x00", "git status \x1b[2K", "git status \u202e", "git status \u200b",
            "git status\u00a0x", "git status \u2028x", "git status \u0085x", "git status x" * 1000,
            "cd /; git status", "sudo git status", "agit status",
        ],
    ),
    ("git diff:*", ["git diff", "git diff --stat"], ["git diffx", "git diff; x", "git diff:x"]),
    ("git diff *", ["git diff --stat", "git diff "], ["git diff", "git diffs x", "git diff | x"]),
    ("npm test*", ["npm test", "npm test -- -k x"], ["npm testevil", "npm test:evil",
     "npm test&&x"]),
    ("npm run *", ["npm run build"], ["npm run", "npm runx", "npm run x;y"]),
    (
        "cat src/*",
        ["cat src/a.py", "cat src/"],
        [
            "cat src/a/b.py", "cat src/a.py /etc/passwd", "cat src/../x", "cat src/..",
            "cat src/a ..",
            "cat src/.. /x",
        ],
    ),
    (
        "cat src/**",
        ["cat src/a.py", "cat src/a/b.py", "cat src/a..b"],
        [
            "cat src/a/../../etc/passwd", "cat src/a /etc/passwd", "cat src/a/..",
            # To a shell these are `..` as well.
            "cat src/.''./x", 'cat src/.""./x', "cat src/'.'./x", "cat src/a/.'.'/.'.'/x",
            "cat src/.?/x", "cat src/.[.]/x", "cat src/.*/x", "cat src/'.'?/x", "cat src/..*/x",
        ],
    ),
    ("cat ../shared/*", ["cat ../shared/x"], ["cat ../shared/..", "cat ../../shared/x"]),
    ("git log *", ["git log main..HEAD", "git log --oneline -5"], ["git log ../x",
     "git log --o=../x"]),
    ("make test-*", ["make test-unit"], ["make test-unit install", "make test-a/b", "make test"]),
    ("git * --stat", ["git diff --stat", "git a b --stat"], ["git --stat", "git a; b --stat"]),
    ("*", ["ls", "rm -rf /", ""], ["a;b", "a\nb", "../x"]),
    # What a pattern spells itself, it may match.
    ("git status; git diff*", ["git status; git diff", "git status; git diff x"],
     ["git status; rm"]),
    ("echo $HOME *", ["echo $HOME x"], ["echo $HOME $x", "echo $HOME; x"]),
    ("a\nb *", ["a\nb c"], ["a\nb\nc"]),
    ('sh -c "git *"', ['sh -c "git log"'], ['sh -c "git log" "x"', 'sh -c "git log; x"']),
    ("sh -c 'git *'", ["sh -c 'git log'"], ["sh -c 'git log' 'x'"]),
    # Stars and backslashes that mean themselves.
    ("rm \\*", ["rm *"], ["rm x", "rm \\*", "rm "]),
    ("a\\\\*", ["a\\", "a\\b"], ["a", "a\\\\b"]),
    ("a\\d", ["a\\d"], ["ad"]),
    ("ls [a-z]", ["ls [a-z]"], ["ls a"]),
    ("ls ?", ["ls ?"], ["ls a"]),
    ("(a+)+$", ["(a+)+$"], ["aaa"]),
    ("", [""], [" ", "x"]),
    # What is no text is compared as JSON.
    ("true", [True, "true"], [False, None, 1]),
    ("5", [5, "5"], [5.0, 50]),
    ("null", [None], [False, 0, ""]),
    ("[1,*]", [[1, 2], [1, 2, 3]], [[2, 1], [1, {}], [1]]),
    # A star does not go over a quote that the pattern spells: what is quoted ends where it says.
    ('["git",*]', [], [["git", "log"], ["git", "a;b"], ["rm"]]),
    ('["git","log"]', [["git", "log"]], [["git", "log", "x"], ["git log"]]),
    ('{"a":1,"b":2}', [{"b": 2, "a": 1}], [{"a": 1}, {"a": 1, "b": 2, "c": 3}]),
]  # fmt: skip

PATHS: list[tuple[str, list[object], list[object]]] = [
    (
        "/repo/**",
        ["/repo/a", "/repo/a/b c/(d)/$e.py", "a", "./a", "src/a.py", "/repo/a/", "/repo/..a",
         "/repo/é"],
        [
            "/repo", "/repo/", "/repository/a", "/repo/../etc/passwd", "/repo/a/../../etc/passwd",
            "../x", "..", "/repo/./a", "/repo//a", "//repo/a", "/repo/a/..", "/repo/.", "", "/",
            "./../x",
            "././x", "~/x", "~root/x", "/repo/~/x", "/repo/a\nb", "/repo/a\x00", "/repo/\u202ea",
            "/etc/passwd", "/REPO/a", "/repo/.git/hooks/pre-commit", "/repo/a/.git/config",
            ".git/config",
            "/repo/.GIT/config", "/repo/.claude/settings.json", "a/.mcp.json",
            "/repo\\..\\x", "file:///repo/a", None, 5, ["/repo/a"],
            {"x": "/repo/a"},
            "/repo/" + "a" * 5000,
        ],
    ),
    ("/repo/*", ["/repo/a.py", "a.py"], ["/repo/a/b", "src/a.py", "/repo/"]),
    ("./src/**", ["/repo/src/a", "src/a/b"], ["/repo/srcs/a", "/src/a", "/other/src/a", "src"]),
    ("./src/**/*.py", ["src/a.py", "src/b/a.py", "src/b/c/a.py"], ["srca.py", "src/a.pyc", "a.py"]),
    ("./**", ["a", "/repo/a/b"], ["/repo", "/other/a", "../repo/a"]),
    ("/repo/a.py", ["/repo/a.py", "a.py", "./a.py"], ["/repo/./a.py", "/repo/b/../a.py", "A.py"]),
    ("/repo/.git/**", ["/repo/.git/config"], ["/repo/a", "/repo/.git/../x"]),
]  # fmt: skip

ADDRESSES: list[tuple[str, list[object], list[object]]] = [
    (
        "https://docs.example.org/**",
        ["https://docs.example.org/a", "https://docs.example.org/a/b?c=d&e#f"],
        [
            "http://docs.example.org/a", "https://docs.example.org",
            "https://docs.example.org.evil.com/",
            "https://docs.example.org@evil.com/", "https://evil.com/https://docs.example.org/",
            "https://docs.example.org\\@evil.com/", "https://docs.example.org:8443/a",
            "https://docs.example.org/../a", "https://docs.example.org/a b",
            "https://DOCS.example.org/a",
            "https://docs.example.org/\n",
        ],
    ),
    (
        "https://*.example.org/**",
        ["https://a.example.org/x"],
        [
            "https://evil.com/.example.org/x", "https://evil.com#.example.org/x",
            "https://evil.com?.example.org/x", "https://a@evil.example.org/x",
            "https://.example.com/",
            "https://evil.com:80.example.org/x", "https://evil.com\\.example.org/x",
        ],
    ),
    (
        "https://git.example.org/me/**",
        ["https://git.example.org/me/x"],
        [
            "https://git.example.org/me/../you", "https://git.example.org/me/%2e%2e/you",
            "https://git.example.org/me/.%2E/you", "https://git.example.org/me/..?x",
            "https://git.example.org/me/a%2f..%2f..%2fyou",
        ],
    ),
]  # fmt: skip


def cases(
    member: str, table: list[tuple[str, list[object], list[object]]]
) -> list[tuple[str, str, object, bool]]:
    return [
        (member, pattern, value, expected)
        for pattern, good, bad in table
        for values, expected in ((good, True), (bad, False))
        for value in values
    ]


@pytest.mark.parametrize(
    ("member", "pattern", "value", "expected"),
    [
        *cases("command", COMMANDS),
        *cases("file_path", PATHS),
        *cases("/edits/0/path", PATHS),
        *cases("url", ADDRESSES),
    ],
)
def test_what_allows_stands_for_little(
    member: str, pattern: str, value: object, expected: bool
) -> None:
    assert allows(member, pattern, value) is expected


@pytest.mark.parametrize(
    "pattern",
    [
        "https://docs.example.org*", "https://*", "https://*example.org/",
        "https://a*.example.org/",
        "https://**/x", "http://*.", "https://example.*/", "https:///x",
        "https://a\\*.example.org/",
    ],
)  # fmt: skip
def test_the_host_of_an_address_is_spelled_to_its_end(pattern: str) -> None:
    with pytest.raises(ValueError, match="host"):
        allowing("url", pattern)


@pytest.mark.parametrize(
    ("pattern", "value"),
    [
        ("rm *", "rm -rf /"), ("rm *", "cd / && rm -rf x"), ("rm *", "ls; rm  x"), ("rm *",
         "ls|rm x"),
        ("rm *", "ls\nrm x"), ("rm *", "$(rm x)"), ("rm *", "`rm x`"), ("rm *", "(rm x)"),
        ("rm *", "{ rm x; }"), ("rm *", "\trm\tx"), ("rm *", ["rm", "-rf", "/"]),
        ("rm *", "for x in a b; do rm $x; done"), ("rm *", "if true; then rm x; else rm y; fi"),
        ("rm *", "A=1 rm x"), ("rm *", "A='b c' D=\"e f\" rm x"), ("rm *", "sudo rm x"),
        ("rm *", "! time rm x"), ("rm *", "bash -lc 'rm x'"), ("rm x", '/bin/sh -c "rm x"'),
        ("rm x", "bash -lc 'cd a && rm x'"), ("rm *", "\\rm x"), ("rm -r x", "rm -r \\\n  x"),
        ("git push*", "git \\\r\n push"), ("rm *", "env A=b sudo -- rm x; exec rm x"),
        ("rm *", ["sh", "-c", "rm -rf /"]), ("rm*", "rmdir x"), ("git push:*", "git push -f"),
        ("git push*", "git push; ls"), ("*--force*", "git push --force"), ("*secret*",
         {"a": ["secret"]}),
        ("/etc/**", "/etc/passwd"), ("/etc/**", "/repo/../etc/passwd"), ("/etc/**",
         "../etc/passwd"),
        ("/etc/**", "/etc//passwd"), ("/etc/**", "//etc/passwd"), ("/etc/*", "/etc/ssl/x"),
        ("./.env", ".env"), ("./.env", "/repo/.env"), ("./.env", "a/../.env"), ("*.env",
         "/x/y.env"),
        ("https://evil.com*", "https://evil.com.x/"), ("true", True), ("", ""), ("*", ""),
        ("/repo/**/x", "/repo/x"), ("/repo/**/x", "/repo/a/b/x"),
        ("rm *", "a" * 300_000 + ";rm  x"),
        ("rm *x", ";".join(f"rm {n}" for n in range(5000))),
        ("*x", "a;b x;c"), ("rm *", "a;" * 100_000 + "rm x"),
        ("*x*", "x" * 5_000_000),
    ],
)  # fmt: skip
def test_what_denies_stands_for_anything(pattern: str, value: object) -> None:
    assert denies(pattern, value)


@pytest.mark.parametrize(
    ("pattern", "value"),
    [("rm *", "echo rm x"), ("rm *", "rm"), ("rm *", "rmdir x"), ("/etc/**", "/etcetera"),
     ("rm *", "a b;" * 100_000), ("rm *x", "rm a;" * 5000), ("rm *x", "rm 1;rm 2"),
     ("ab*ba", "aba"), ("a*b*c", "acb"), ("x", "X"), ("5", 50)],
)  # fmt: skip
def test_what_denies_is_still_about_something(pattern: str, value: object) -> None:
    assert not denies(pattern, value)


# ── properties ───────────────────────────────────────────────────────────────────────────────

ANY = st.text(max_size=40)
NASTY = st.text(alphabet="ab /.*\\;|&$`\n\"'~:", max_size=12)


@given(ANY | NASTY, ANY | NASTY)
def test_an_escaped_text_is_a_pattern_for_itself_alone(text: str, other: str) -> None:
    pattern = patterns.escape(text)
    assert patterns.literal_text(pattern) == text
    for check in (
        patterns.for_text(pattern),
        patterns.for_path(pattern),
        patterns.Generous(pattern),
    ):
        assert check.fits(text)
        assert check.fits(other) == (text == other)


@given(NASTY, NASTY)
def test_what_is_allowed_would_also_be_denied(pattern: str, text: str) -> None:
    """Of the two readings of a pattern, the one that allows never reaches further."""
    for member in ("command", "path"):
        if allows(member, pattern, text):
            assert denies(pattern, text)


@given(st.text(alphabet="abc *", min_size=1, max_size=12), NASTY)
def test_a_star_brings_in_no_second_command(pattern: str, text: str) -> None:
    if allows("command", pattern, text):
        assert not set(text) & set(";|&$`\n\r()<>{}\\")


@given(st.sampled_from(["/repo/**", "./**", "/repo/*", "/repo/a*", "./a/**/b"]), NASTY)
def test_a_path_that_fits_is_inside(pattern: str, text: str) -> None:
    if allows("path", pattern, text):
        parts = text.removeprefix("./").removesuffix("/").split("/")
        assert not {".", ".."} & set(parts)
        assert text.startswith("/repo/") or not text.startswith("/")


@given(st.text(alphabet="ab*", max_size=10), st.text(alphabet="ab", max_size=10))
def test_the_generous_reading_is_what_everybody_knows(pattern: str, text: str) -> None:
    assert patterns.Generous(pattern).fits(text) == fnmatch.fnmatchcase(text, pattern)


@pytest.mark.parametrize(
    "pattern", ["*a" * 300 + "b", "a*" * 300 + "b", "/**" * 200 + "b", "*" * 999]
)
@pytest.mark.parametrize("member", ["command", "path"])
def test_no_pattern_takes_for_ever(pattern: str, member: str) -> None:
    """A matcher that goes back to try again would not come to an end with these."""
    everything = set(pattern) == {"*"}
    assert allows(member, pattern, "a" * patterns.LONGEST) is everything
    assert allows(member, pattern, "/a" * (patterns.LONGEST // 2)) is everything
    assert denies(pattern, "a" * 1_000_000) is everything
