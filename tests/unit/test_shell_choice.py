"""Which shell a terminal gets when none is named."""

from __future__ import annotations

import pwd
from pathlib import Path
from types import SimpleNamespace

import pytest

from agor.errors import HandlerFailed
from agor.executor.terminals.choice import choose_shell
from agor.protocol.terminals import SpawnTerminalParams

PARAMS = SpawnTerminalParams(terminal_id="t", cwd="/")


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with a bash, an sh, and a shell for those who may not log in."""
    for name in ("bash", "sh", "fish", "nologin"):
        (tmp_path / name).touch(mode=0o700)
    return tmp_path


def chosen(programs: Path, login: str | None, monkeypatch: pytest.MonkeyPatch) -> str:
    """Choose for a user with this shell in passwd; None: there is no such user."""

    def of(_: int) -> object:
        if login is None:
            raise KeyError
        return SimpleNamespace(pw_shell=login)

    monkeypatch.setattr(pwd, "getpwuid", of)
    return Path(choose_shell(PARAMS, {"PATH": str(programs)})).name


def test_it_is_the_one_of_passwd(programs, monkeypatch):
    assert chosen(programs, str(programs / "fish"), monkeypatch) == "fish"


@pytest.mark.parametrize(
    "login", [None, "", "fish", "{}/nologin", "/bin/false", "{}/zsh", "{}"], ids=repr
)
def test_if_that_is_none_it_is_bash_and_then_sh(programs, monkeypatch, login):
    login = login and login.format(programs)
    assert chosen(programs, login, monkeypatch) == "bash"
    (programs / "bash").unlink()
    assert chosen(programs, login, monkeypatch) == "sh"
    (programs / "sh").chmod(0o600)
    with pytest.raises(HandlerFailed, match="neither a login shell nor bash nor sh"):
        chosen(programs, login, monkeypatch)
