"""Where settings come from, and the words for those that are wrong."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agor.config import Config, load
from agor.config.keys import KEYS, SECTIONS, build
from agor.config.reading import from_text, settings
from agor.errors import BadConfig

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write the file of a home, and return the home."""

    def write(text: str) -> Path:
        (tmp_path / "config.yaml").write_text(text, encoding="utf-8")
        return tmp_path

    return write


def refusal(home: Path, env: dict[str, str] | None = None) -> BadConfig:
    with pytest.raises(BadConfig) as caught:
        load(home, env or {})
    return caught.value


# ── where they come from ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "text", [None, "", "\n", "# nothing\n", "---\n", "execution:\n", "log: {}"]
)
def test_nothing_in_the_file_is_all_defaults(tmp_path: Path, write: Write, text: str | None):
    if text is not None:
        write(text)
    url = f"sqlite:///{tmp_path}/agor.db"
    assert load(tmp_path, {}) == build({"database.url": url})
    assert {setting.origin for setting in settings(tmp_path, {}).values()} == {"default"}


def test_the_file_sets_what_it_names_and_nothing_else(write: Write):
    home = write(
        "execution:\n  max_executors: 3\n  limits:\n    memory: 2G\n    cpus: 0.5\n"
        "daemon: {port: 0}\nlog:\n  level: debug\n  format:\n"
    )
    config = load(home, {})
    assert config.execution.max_executors == 3
    assert config.execution.limits.resources.memory == 2 * 1024**3
    assert config.execution.limits.resources.cpus == 0.5
    assert config.execution.limits.resources.processes is None
    assert (config.daemon.port, config.log.level, config.log.format) == (0, "debug", "console")
    from_file = [name for name, each in settings(home, {}).items() if each.origin == "file"]
    assert from_file == [
        "execution.max_executors",
        "execution.limits.memory",
        "execution.limits.cpus",
        "daemon.port",
        "log.level",
    ]


def test_a_variable_overrides_the_file_for_one_run(write: Write):
    home = write("execution:\n  max_executors: 3\n  task_timeout_ms: 5\n  max_waiting: 7\n")
    env = {
        "AGOR_EXECUTION__MAX_EXECUTORS": "4",
        "AGOR_EXECUTION__TASK_TIMEOUT_MS": "none",
        "AGOR_EXECUTION__MAX_WAITING": "",
        "AGOR_EXECUTION__LIMITS__MEMORY": "512M",
        "AGOR_HOME": "/somewhere/else",
        "AGOR_TEST_MARK": "x",
        "PATH": "/bin",
    }
    config = load(home, env)
    assert config.execution.max_executors == 4
    assert config.execution.task_timeout_ms is None
    assert config.execution.max_waiting == 7, "an empty variable is as good as none"
    assert config.execution.limits.memory == 512 * 1024**2
    origin = settings(home, env)["execution.max_executors"].origin
    assert origin == "AGOR_EXECUTION__MAX_EXECUTORS"


def test_agor_home_says_where_the_file_is(write: Write, monkeypatch: pytest.MonkeyPatch):
    home = write("daemon:\n  port: 4040\n")
    monkeypatch.setenv("AGOR_HOME", str(home))
    assert load().daemon.port == 4040


@pytest.mark.parametrize("url", ["sqlite:///{home}/other.db", "postgresql://u:{home}@h/d"])
def test_home_is_filled_in_for_a_file_only(write: Write, url: str):
    home = write(f"database:\n  url: '{url}'\n")
    expected = f"sqlite:///{home}/other.db" if url.startswith("sqlite") else url
    assert load(home, {}).database.url == expected


def test_a_configuration_cannot_be_changed():
    config = Config()
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.execution.max_executors = 5  # type: ignore[misc]


# ── what is wrong ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "line", "named", "advice"),
    [
        (
            "# a\nexecution:\n  max_executers: 4\n",
            3,
            "no setting 'execution.max_executers'",
            ["Did you mean execution.max_executors?", "max_waiting"],
        ),
        (
            "exection: {}\n",
            1,
            "no setting 'exection'",
            ["Did you mean execution?", "daemon, database, execution, feed, log"],
        ),
        ("max_executors: 4\n", 1, "'max_executors'", ["Did you mean execution.max_executors?"]),
        ("execution.max_executors: 4\n", 1, "with a dot", ["execution:\n  max_executors: …"]),
        ("execution:\n  limits.memory: 2G\n", 2, "with a dot", ["  limits:\n    memory: …"]),
        (
            "\nexecution:\n  max_executors: many\n",
            3,
            "execution.max_executors cannot be 'many'",
            ["a whole number from 1 to 10000"],
        ),
        ("execution:\n  use_executor: 'yes'\n", 2, "cannot be 'yes'", ["true or false"]),
        ("execution:\n  max_executors: true\n", 2, "cannot be true", ["a whole number"]),
        ("execution:\n  max_executors: [1]\n", 2, "cannot be a list", ["a whole number"]),
        ("execution:\n  max_executors: {a: 1}\n", 2, "cannot be a section", ["a whole number"]),
        ("execution:\n  max_executors: 2001-13-45\n", 2, "'2001-13-45'", ["a whole number"]),
        ("log: {level: loud}\n", 1, "cannot be 'loud'", ["debug, info, warning or error"]),
        ("execution: 5\n", 1, "execution must be a section", ["max_executors"]),
        ("log:\n  level: info\n  level: debug\n", 3, "log.level is there twice", ["Remove one"]),
        ("log: {}\nlog: {}\n", 2, "log is there twice", ["Remove one"]),
        ("daemon:\n  port: [\n", 3, "not YAML", ["port: 3030"]),
        ("\tdaemon: 1\n", 1, "not YAML", ["port: 3030"]),
        ("daemon:\n  host: a: b\n", 2, "not YAML", ["port: 3030"]),
    ],
)
def test_what_is_wrong_is_said_with_its_line_and_what_would_be_right(
    write: Write, text: str, line: int, named: str, advice: list[str]
):
    home = write(text)
    error = refusal(home)
    assert error.message.startswith(f"{home / 'config.yaml'}, line {line}: ")
    assert named in error.message
    for words in advice:
        assert words in (error.hint or "")


@pytest.mark.parametrize(
    "text", ["- 1", "text", "{" * 3000, "a: \x01", "execution: {max_executors: %s}" % ("9" * 5000)]
)
def test_what_is_no_configuration_at_all_is_said_in_few_words(write: Write, text: str):
    error = refusal(write(text))
    assert len(error.message) < 300


def test_a_file_that_is_no_text_is_refused_with_its_line(tmp_path: Path):
    (tmp_path / "config.yaml").write_bytes(b"log:\n  level: \xff\n")
    assert "line 2: this is not UTF-8" in refusal(tmp_path).message


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path):
    (tmp_path / "config.yaml").mkdir()
    assert "cannot read" in refusal(tmp_path).message


def test_a_huge_file_is_not_read(tmp_path: Path):
    with (tmp_path / "config.yaml").open("wb") as file:
        file.truncate(10 * 1024**3)
    assert "too large" in refusal(tmp_path).message


@pytest.mark.parametrize(
    ("variable", "value", "message", "hint"),
    [
        ("AGOR_DAEMON__PROT", "4", "stands for no setting", "Did you mean AGOR_DAEMON__PORT?"),
        ("AGOR_daemon__port", "4", "stands for no setting", "Did you mean AGOR_DAEMON__PORT?"),
        ("AGOR_X__Y", "4", "'AGOR_X__Y' stands for no setting", "agor config list"),
        ("AGOR_EXECUTION__LIMITS", "4", "stands for no setting", "agor config list"),
        ("AGOR_DAEMON__PORT", "many", "daemon.port cannot be 'many'", "from 0 to 65535"),
        ("AGOR_DAEMON__PORT", "none", "daemon.port cannot be 'none'", "from 0 to 65535"),
    ],
)
def test_a_wrong_variable_is_refused(
    tmp_path: Path, variable: str, value: str, message: str, hint: str
):
    error = refusal(tmp_path, {variable: value})
    assert variable in error.message
    assert message in error.message
    assert hint in (error.hint or "")


# ── secrets and terminals ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "text",
    [
        "database:\n  url: mysql://u:SECRET@h/d\n",
        "database:\n  url: SECRET\n",
        "database:\n  url: postgresql://u:SE#SECRET@h/d\n",
        "database:\n  url: [SECRET]\n",
        "database:\n  url: {SECRET: 1}\n",
        "database:\n  url: !SECRET x\n",
        "database:\n  url: *SECRET\n",
        "database:\n  url: &SECRET\n",
        "database:\n  url: 'SECRET\n",
        'database:\n  url: "SECRET\\q"\n',
        "database:\n  url: x: SECRET\n",
        "database:\n  url: a\n  url: SECRET\n",
        "database: postgresql://u:SECRET@h/d\n",
        "databse:\n  url: postgresql://u:SECRET@h/d\n",
        "- postgresql://u:SECRET@h/d\n",
        "postgresql://u:SECRET@h/d\n",
        "database:\n  url: postgresql://u:SECRET@h/d\n log: x\n",
        "%SECRET\ndatabase: x",
    ],
)
def test_no_error_repeats_a_password(write: Write, text: str):
    # Most of these are wrong; one or two are read as something else, and are not shown either.
    home = write(text)
    try:
        told = " ".join(each.shown for each in settings(home, {}).values())
    except BadConfig as error:
        told = f"{error.message} {error.hint}"
    assert "SECRET" not in told


def test_no_error_about_a_variable_repeats_a_password(tmp_path: Path):
    error = refusal(tmp_path, {"AGOR_DATABASE__URL": "mysql://u:SECRET@h/d"})
    assert "mysql://" in error.message
    assert "SECRET" not in f"{error.message} {error.hint}"


@given(st.text())
def test_any_text_is_read_or_refused_in_words_that_cannot_steer_a_terminal(text: str):
    told = ""
    try:
        from_text(text, Path("config.yaml"))
    except BadConfig as error:
        told = error.message
    assert told.isprintable()


yaml_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.dictionaries(st.sampled_from([*SECTIONS, *KEYS, "port", "x"]) | st.text(), inside)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(sorted(SECTIONS)), yaml_values))
def test_any_values_are_read_or_refused(values: dict[str, object]):
    try:
        found = from_text(json.dumps(values), Path("config.yaml"))
    except BadConfig:
        return
    build({name: setting.value for name, setting in found.items()})
