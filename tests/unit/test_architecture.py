"""Keeps the architecture true: who may import whom, what is public, what must be documented."""

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import agor
from agor import errors
from agor.protocol.envelope import CANCEL_REQUEST
from agor.protocol.events import EVENT_FORMS
from agor.protocol.methods import TO_DAEMON, TO_EXECUTOR

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "agor"
REFERENCE = ROOT / "docs" / "reference"

#: What each part of the package may import of the others. A part that is not listed fails the test.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "logs": set(),
    "leaks": set(),
    "catalogue": set(),
    "installing": {"catalogue", "errors", "private"},
    "__init__": {"errors"},
    "protocol": {"errors"},
    "rpc": {"errors", "protocol"},
    "agents": {"__init__", "catalogue", "errors", "linux", "protocol", "rpc"},
    "linux": {"errors", "protocol"},
    "process_clock": {"protocol"},
    "private": {"errors"},
    "home": {"errors", "linux", "private", "protocol"},
    "config": {"errors", "home", "logs", "private", "protocol"},
    "executor": {"__init__", "agents", "catalogue", "errors", "linux", "logs", "protocol", "rpc"},
    "cli": {
        "__init__",
        "catalogue",
        "client",
        "config",
        "daemon",
        "environments",
        "errors",
        "home",
        "installing",
        "leaks",
        "linux",
        "logs",
        "private",
        "protocol",
        "testing",
    },
    "client": {"__init__", "errors", "home", "protocol"},
    "environments": {
        "__init__",
        "errors",
        "linux",
        "logs",
        "process_clock",
        "protocol",
        "rpc",
    },
    "execution": {"environments", "errors", "protocol", "rpc", "terminals"},
    "terminals": {"errors", "protocol", "rpc"},
    "daemon": {
        "__init__",
        "catalogue",
        "config",
        "environments",
        "errors",
        "execution",
        "home",
        "linux",
        "logs",
        "private",
        "process_clock",
        "protocol",
        "rpc",
    },
    "testing": {"__init__", "environments", "errors", "logs", "protocol", "rpc"},
}


#: Only the composition root joins both sides, for the direct path.
JOINS_BOTH_SIDES = SOURCE / "daemon" / "parts.py"

#: Inside the daemon: no layer reaches past its neighbour.
DAEMON_LAYERS: dict[str, set[str]] = {
    "git": set(),
    "pool": set(),
    "tallies": set(),
    "metrics": {"tallies"},
    "store": {"pool"},
    "services": {"git", "metrics", "pool", "store"},
    "api": {"metrics", "services"},
    "settings": {"api", "pool"},
    "parts": {"api", "metrics", "pool", "services", "settings", "store"},
    "main": {"api", "parts", "services", "settings", "store"},
    "backup": {"services", "store"},
    "process": {"backup", "main"},
}


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_parts(path: Path) -> set[str]:
    """The parts of agor that a file imports, also inside functions and for types only."""
    return {module.split(".")[0] or "__init__" for module in imports(path)} - {part_of(path)}


def imports(path: Path) -> set[str]:
    """The modules of agor that a file imports, without the leading `agor.`."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                modules = [name.name for name in names]
            case ast.ImportFrom(module="agor", names=names):
                modules = [f"agor.{name.name}" for name in names]
            case ast.ImportFrom(module=str(module), level=0):
                modules = [module]
            case ast.ImportFrom():
                pytest.fail(f"{path} has a relative import")
            case _:
                continue
        for module in modules:
            top, _, rest = module.partition(".")
            if top == "agor":
                found.add(rest)
    return found


SOURCES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_file_imports_only_what_its_part_may(path: Path) -> None:
    more = {"executor"} if path == JOINS_BOTH_SIDES else set()
    assert imported_parts(path) <= MAY_IMPORT[part_of(path)] | more


@pytest.mark.parametrize(
    "path",
    [path for path in SOURCES if part_of(path) == "daemon"],
    ids=lambda path: str(path.relative_to(SOURCE)),
)
def test_inside_the_daemon_no_layer_reaches_past_its_neighbour(path: Path) -> None:
    inside = path.relative_to(SOURCE / "daemon").parts[0].removesuffix(".py")
    if inside == "__init__":
        return
    reached = {module.split(".")[1] for module in imports(path) if module.startswith("daemon.")} - {
        inside
    }
    assert reached <= DAEMON_LAYERS[inside]


def test_the_rpc_layer_knows_no_method() -> None:
    for path in (SOURCE / "rpc").glob("*.py"):
        assert "protocol.methods" not in path.read_text(encoding="utf-8"), path


def test_the_public_api_is_this_list() -> None:
    assert agor.__all__ == ["AgorError", "Disconnected", "RpcError", "__version__"]
    assert all(hasattr(agor, name) for name in agor.__all__)


def test_importing_agor_alone_stays_light() -> None:
    heavy = "{'httpx', 'websockets', 'sqlalchemy', 'uvicorn', 'asyncio'}"
    code = f"import agor, sys; assert not {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)


def test_importing_the_package_starts_nothing_and_prints_nothing(
    capfd: pytest.CaptureFixture[str],
) -> None:
    for module in pkgutil.walk_packages(agor.__path__, "agor."):
        importlib.import_module(module.name)
    assert capfd.readouterr() == ("", "")


def all_errors() -> list[type[errors.AgorError]]:
    def below(kind: type[errors.AgorError]) -> list[type[errors.AgorError]]:
        return [kind, *(found for child in kind.__subclasses__() for found in below(child))]

    # Tests may have errors of their own.
    return [kind for kind in below(errors.AgorError) if kind.__module__.startswith("agor.")]


def test_every_error_lives_in_the_one_tree_and_has_a_code_of_its_own() -> None:
    kinds = all_errors()
    assert {kind.__module__ for kind in kinds} == {"agor.errors"}
    codes = [kind.code for kind in kinds]
    assert len(set(codes)) == len(codes)


def test_every_error_code_is_documented() -> None:
    page = (REFERENCE / "errors.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `([a-z_]+)`", page, re.MULTILINE))
    # Codes of a task's result and of single answers have no class of their own.
    in_code = {
        word
        for path in SOURCES
        for word in re.findall(
            r'(?:code=|Problem\(\s*)"([a-z_]+)"', path.read_text(encoding="utf-8")
        )
    }
    assert documented == {kind.code for kind in all_errors()} | in_code


def test_every_rpc_number_is_documented() -> None:
    page = (REFERENCE / "errors.md").read_text(encoding="utf-8")
    for number, kind in errors.RPC_ERRORS.items():
        assert f"| `{kind.code}` | {number} |" in page


def test_every_method_and_each_of_its_members_is_documented() -> None:
    page = (REFERENCE / "protocol.md").read_text(encoding="utf-8")
    for method in (*TO_EXECUTOR, *TO_DAEMON):
        section = page.split(f"\n### `{method.name}`", 1)
        assert len(section) == 2, f"{method.name} has no section"
        text = section[1].split("\n### ", 1)[0]
        for form in (method.params, getattr(method, "result", None)):
            for member in getattr(form, "__struct_fields__", ()):
                assert f"`{member}`" in text, f"{method.name}: {member} is not documented"


def test_every_event_and_each_of_its_members_is_documented() -> None:
    page = (REFERENCE / "protocol.md").read_text(encoding="utf-8").split("\n## Events\n")[1]
    for name, form in EVENT_FORMS.items():
        row = next((line for line in page.splitlines() if line.startswith(f"| `{name}` |")), "")
        for member in form.__struct_fields__:
            assert f"`{member}`" in row, f"{name}: {member} is not documented"


def test_what_the_peer_itself_handles_is_documented() -> None:
    assert CANCEL_REQUEST in (REFERENCE / "protocol.md").read_text(encoding="utf-8")
