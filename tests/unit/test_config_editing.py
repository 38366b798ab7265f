"""Changes to config.yaml: one setting changes, and not a byte of anything else."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from agor.config import load
from agor.config.changes import with_value, without_value
from agor.config.editing import problem_of, set_value, unset_value
from agor.config.keys import KEYS, Key
from agor.config.reading import from_text
from agor.errors import AgorError, BadConfig, BadInput
from agor.home import Home

LAID_OUT = """\
# what we run with

execution:      # see the wiki
    max_executors:    4    # was 10
    # spare_executors: 3
    limits:
        memory: "1G" # enough

    # more to come

daemon: { port: 3030,  host: 127.0.0.1 } # as ever
log:
# the end
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def write(home: Home, text: str) -> None:
    home.prepare()
    home.config_file.write_bytes(text.encode())


def text_of(home: Home) -> str:
    return home.config_file.read_bytes().decode()


def values_of(text: str) -> Any:
    """What a text says. Sections without anything in them say nothing."""

    def settled(tree: Any) -> Any:
        if not isinstance(tree, dict):
            return tree
        inside = {name: settled(value) for name, value in tree.items()}
        return {name: value for name, value in inside.items() if value not in (None, {})}

    return settled(YAML(typ="safe", pure=True).load(text) or {})


# ── setting ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "value", "before", "after"),
    [
        ("execution.max_executors", "7", "    4    # was", "    7    # was"),
        ("execution.limits.memory", "2G", '"1G" # enough', "2G # enough"),
        ("daemon.port", "0", "port: 3030, ", "port: 0, "),
        ("log.level", "debug", "log:\n", "log:\n  level: debug\n"),
        (
            "execution.use_executor",
            "false",
            "# enough\n",
            "# enough\n    use_executor: false\n",
        ),
        ("execution.limits.cpus", "0.5", "# enough\n", "# enough\n        cpus: 0.5\n"),
        (
            "execution.socket_path_template",
            "{runtime}/{id}",
            "# enough\n",
            '# enough\n    socket_path_template: "{runtime}/{id}"\n',
        ),
        (
            "database.url",
            "postgresql://u:p%40@h/d",
            "# the end\n",
            "# the end\ndatabase:\n  url: postgresql://u:p%40@h/d\n",
        ),
        (
            "execution.executor_unix_user",
            "1000",
            "# enough\n",
            '# enough\n    executor_unix_user: "1000"\n',
        ),
    ],
)
def test_only_the_one_setting_changes(home, name, value, before, after):
    write(home, LAID_OUT)
    set_value(home, name, value)
    assert LAID_OUT.count(before) == 1
    assert text_of(home) == LAID_OUT.replace(before, after)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "log:\n  level: debug\n"),
        ("# mine", "# mine\nlog:\n  level: debug\n"),
        ("log:", "log:\n  level: debug\n"),
        ("log:\n  level:\n", "log:\n  level: debug\n"),
        ("log:\n  level:   # how\n", "log:\n  level: debug   # how\n"),
        ("log:\n  format: json", "log:\n  format: json\n  level: debug\n"),
        ("log:\r\n  format: json\r\n", "log:\r\n  format: json\r\n  level: debug\r\n"),
        ("log:\n  level: 'loud'  # oops\n", "log:\n  level: debug  # oops\n"),
        ("log: {level: info}\n", "log: {level: debug}\n"),
        ("log: {}  # none\n", "log: {level: debug}  # none\n"),
        ("log: { format: json } #\n", "log: { format: json, level: debug } #\n"),
        ("{}\n", "{log: {level: debug}}\n"),
        ("log:\n  level: # how\n# next\n", "log:\n  level: debug # how\n# next\n"),
        ("log:\n  format:\n# next\n", "log:\n  format:\n  level: debug\n# next\n"),
        ("feed: {}\nlog:\n  level: info\n", "feed: {}\nlog:\n  level: debug\n"),
        ("execution:\n  limits:\n", "execution:\n  limits:\nlog:\n  level: debug\n"),
        ("---\nlog:\n  level: info\n", "---\nlog:\n  level: debug\n"),
    ],
)
def test_a_setting_finds_its_place(home, text, expected):
    write(home, text)
    set_value(home, "log.level", "debug")
    assert text_of(home) == expected


@pytest.mark.parametrize(
    "text",
    [
        "# mine\nlog: {format: json} # ours\n",
        "log: {format: json}\n...\n",
        "daemon: &it {port: 1}\nlog: &x\n  level: &y info\nfeed: {stall_timeout_ms: 5}\n",
        "log:\n  ? level\n  : info\n",
        "log:\n  level: |\n    info\n  format: json\n",
        "log: &x\n  format: json\nfeed: *x\n",
        "log:\n  level: &a info\n  format: *a\n",
        "daemon: {host: &a localhost}\nlog: {level: *a}\n",
    ],
)
def test_what_cannot_be_changed_in_place_keeps_its_comments_and_other_values(home, text):
    write(home, text)
    before = values_of(text)
    # Another one that shares the value by an alias is left as it was, or is this one.
    set_value(home, "log.level", "debug")
    after = values_of(text_of(home))
    assert after["log"]["level"] == "debug"
    assert after["daemon"] == before["daemon"] if "daemon" in before else True
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        line for line in text_of(home).splitlines() if line.startswith("#")
    ]


settings_drawn = st.fixed_dictionaries(
    {},
    optional={
        "execution.max_executors": st.integers(1, 99).map(str),
        "execution.use_executor": st.sampled_from(["true", "false"]),
        "execution.executor_unix_user": st.sampled_from(
            ["ada", "1000", "true", "a#b", "null", "~"]
        ),
        "execution.limits.memory": st.sampled_from(["2G", "512M", "99999999"]),
        "execution.limits.cpus": st.sampled_from(["0.5", "2"]),
        "daemon.port": st.integers(0, 65535).map(str),
        "daemon.host": st.sampled_from(["::1", "127.0.0.1"]),
        "log.level": st.sampled_from(["debug", "error"]),
    },
)


def laid_out(drawn: dict[str, str], indent: int, comments: list[str], blank: str) -> str:
    """Write settings as a person might: with some indentation, comments and empty lines."""
    lines: list[str] = []
    told: list[str] = []
    notes = iter(comments * 100)
    for name, value in sorted(drawn.items()):
        *sections, last = name.split(".")
        for depth, section in enumerate(sections):
            if told[: depth + 1] != sections[: depth + 1]:
                lines += [f"# {next(notes)}", f"{' ' * indent * depth}{section}: # {next(notes)}"]
                told = sections[: depth + 1]
        told = sections
        column = " " * indent * len(sections)
        lines += [f"{column}# {next(notes)}", f"{column}{last}:  {json.dumps(value)}   # x", blank]
    return "\n".join(lines) + "\n"


@given(
    drawn=settings_drawn,
    indent=st.integers(1, 5),
    comments=st.lists(st.text("abc: #{}-'\"", max_size=8), min_size=3, max_size=3),
    blank=st.sampled_from(["", "   "]),
    name=st.sampled_from(sorted(KEYS)),
    value=st.sampled_from(["7", "true", "1.5", "plain", "- a: b #c", "{x}", "'", "ä", "~", "null"]),
)
def test_setting_and_unsetting_changes_no_other_line(
    drawn: dict[str, str], indent: int, comments: list[str], blank: str, name: str, value: str
):
    text = laid_out(drawn, indent, comments, blank)
    path = KEYS[name].path
    changed = with_value(text, path, value, "file")
    tree: Any = values_of(changed)
    for part in path:
        tree = tree[part]
    assert tree == value
    old, new = text.splitlines(), changed.splitlines()
    if name in drawn:
        assert sum(a != b for a, b in zip(old, new, strict=True)) <= 1
    else:
        added = iter(new)
        assert all(line in added for line in old), "every old line is there, in order"
        assert len(new) - len(old) <= len(path)
    back = without_value(changed, path, "file")
    assert set(back.splitlines()) <= set(old)
    without = {key: each for key, each in drawn.items() if key != name}
    assert values_of(back) == values_of(laid_out(without, indent, comments, blank))
    if name not in drawn:
        assert back == text


# ── taking out ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("execution.max_executors", ["    max_executors:    4    # was 10\n"]),
        ("execution.limits.memory", ["    limits:\n", '        memory: "1G" # enough\n']),
        ("daemon.port", ["port: 3030,  "]),
        ("daemon.host", [",  host: 127.0.0.1"]),
    ],
)
def test_what_is_unset_takes_its_lines_along(home, name, lines):
    write(home, LAID_OUT)
    assert unset_value(home, name)
    expected = LAID_OUT
    for line in lines:
        expected = expected.replace(line, "")
    assert text_of(home) == expected


def test_what_was_set_and_unset_leaves_the_file_as_it_was(home):
    # The name of a section goes with its only setting, so that there must be none without any.
    text = LAID_OUT.replace("log:\n", "")
    write(home, text)
    there = from_text(text, home.config_file)
    assert len(there) == 4
    for key in KEYS.values():
        if key.name not in there:
            set_value(home, key.name, key.kind.show(key.default))
            assert unset_value(home, key.name)
            assert text_of(home) == text, key.name


def test_a_comment_above_the_only_setting_of_a_section_stays(home):
    write(home, "log:\n  # how much\n  level: debug\n")
    assert unset_value(home, "log.level")
    assert text_of(home) == "log:\n  # how much\n"
    assert load(home.folder, {}).log.level == "info"


def test_comments_after_a_setting_without_a_value_stay(home):
    write(home, "log:\n  format: json\n  level:\n# about the next\ndaemon: {port: 1}\n")
    assert unset_value(home, "log.level")
    assert text_of(home) == "log:\n  format: json\n# about the next\ndaemon: {port: 1}\n"


def test_a_name_that_means_nothing_can_be_taken_out(home):
    write(home, "execution:\n  max_executers: 4\n  max_executors: 5\n")
    assert unset_value(home, "execution.max_executers")
    assert text_of(home) == "execution:\n  max_executors: 5\n"


def test_what_is_not_there_is_not_taken_out(home):
    write(home, LAID_OUT)
    assert not unset_value(home, "log.level")
    with pytest.raises(BadConfig, match=r"no setting 'log\.lavel'"):
        unset_value(home, "log.lavel")
    with pytest.raises(BadConfig, match="execution is a section"):
        unset_value(home, "execution")
    assert text_of(home) == LAID_OUT


# ── what is refused leaves the file alone ────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        (LAID_OUT, "execution.max_executers", "4"),
        (LAID_OUT, "execution.max_executors", "many"),
        (LAID_OUT, "execution", "4"),
        (LAID_OUT, "database.url", "mysql://u:p@h/d"),
        ("log: [\n", "log.level", "debug"),
        ("log: debug\n", "log.level", "debug"),
        ("- log\n", "log.level", "debug"),
        ("log:\n  level: info\n  level: info\n", "log.level", "debug"),
        ("a: " + "9" * 5000, "log.level", "debug"),
    ],
)
def test_a_change_that_is_refused_leaves_the_file_alone(home, text, name, value):
    write(home, text)
    before = home.config_file.stat()
    with pytest.raises(BadConfig):
        set_value(home, name, value)
    after = home.config_file.stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert text_of(home) == text


def test_other_faults_of_the_file_do_not_keep_one_from_being_mended(home):
    write(home, "log:\n  level: loud\n  format: xml\n")
    set_value(home, "log.level", "debug")
    assert text_of(home) == "log:\n  level: debug\n  format: xml\n"
    problem = problem_of(home)
    assert problem is not None
    assert "line 3: log.format cannot be 'xml'" in problem.message
    set_value(home, "log.format", "json")
    assert problem_of(home) is None


# ── the file itself ──────────────────────────────────────────────────────────────────────────────


def test_the_file_is_ours_alone_and_nothing_is_left_beside_it(home):
    set_value(home, "log.level", "debug")
    home.config_file.chmod(0o644)
    set_value(home, "log.level", "info")
    assert stat.S_IMODE(home.config_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.folder.stat().st_mode) == 0o700
    assert sorted(path.name for path in home.folder.iterdir()) == ["config.yaml", "logs", "run"]


def test_a_file_that_is_a_link_stays_one(home, tmp_path):
    home.prepare()
    real = tmp_path / "dotfiles.yaml"
    real.write_text("# mine\n")
    home.config_file.symlink_to(real)
    set_value(home, "log.level", "debug")
    assert home.config_file.is_symlink()
    assert real.read_text() == "# mine\nlog:\n  level: debug\n"


def test_if_writing_fails_the_file_is_as_it_was(home, monkeypatch):
    write(home, LAID_OUT)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BadInput, match=r"cannot write .*config\.yaml: No space left on device"):
        set_value(home, "log.level", "debug")
    assert text_of(home) == LAID_OUT
    assert sorted(path.name for path in home.folder.iterdir()) == ["config.yaml", "logs", "run"]


def test_changes_at_the_same_time_are_all_kept(home):
    numbers = [key for key in KEYS.values() if key.name.endswith("_ms")]
    code = (
        "import sys; from pathlib import Path; from agor.home import Home\n"
        "from agor.config.editing import set_value\n"
        "for name in sys.argv[2:]: set_value(Home(Path(sys.argv[1])), name, '77')"
    )
    shares: list[list[Key]] = [numbers[start::3] for start in range(3)]
    writers = [
        subprocess.Popen([sys.executable, "-c", code, home.folder, *(key.name for key in share)])
        for share in shares
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    text = text_of(home)
    assert [key.name for key in numbers if f"{key.path[-1]}: 77" not in text] == []
    assert text.count(": 77\n") == len(numbers)


def test_a_home_of_somebody_else_is_refused(home):
    home.folder.mkdir(mode=0o777)
    home.folder.chmod(0o777)
    with pytest.raises(AgorError) as caught:
        set_value(home, "log.level", "debug")
    assert f"chmod 700 {home.folder}" in (caught.value.hint or "")
    assert list(home.folder.iterdir()) == []
