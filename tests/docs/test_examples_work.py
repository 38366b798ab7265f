"""Every example of the documentation works: each document is tried as a reader would, in order."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.agents.needed import need_agent
from tests.docs.examples import DOCUMENTS, Example, examples, name_of
from tests.docs.reader import Reader, free_port, reader
from tests.docs.scenarios import (
    NOT_EXAMPLES,
    NOT_RUN,
    PROGRAMS,
    SCENARIOS,
    SHOWN,
    STAYS,
    Scenario,
    replaced,
)

_SHELL = {"sh", "bash", "console"}
#: Ports that documents name; each stands for one that is free.
_PORTS = re.compile(r"(?<=127\.0\.0\.1:)\d+|(?<=--port )[1-9]\d+")
#: What differs from run to run.
_VARIABLE = re.compile(r"\d{5,}")

WITH_EXAMPLES = [document for document in DOCUMENTS if examples(document)]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("document", WITH_EXAMPLES, ids=name_of)
def test_every_example_of_a_document_works(document: Path):
    scenario = SCENARIOS.get(name_of(document), Scenario())
    for agent in scenario.agents:
        need_agent(agent)
    for program in ("bash", "curl", "jq", "nc"):
        if program in document.read_text() and shutil.which(program) is None:
            pytest.skip(f"{program} is not installed; scripts/system-packages does that")
    Trial(document, scenario).run()


class Trial:
    """One document, tried from its first example to its last."""

    def __init__(self, document: Path, scenario: Scenario) -> None:
        self._examples = examples(document)
        self._scenario = scenario
        named = {port for each in self._examples for port in _PORTS.findall(each.text)}
        self._ports = {port: str(free_port()) for port in sorted(named)}
        self._values: dict[str, str] = {}
        self._shown = ""

    def run(self) -> None:
        """Have a reader try all of it."""
        environment = {
            "AGOR_RUN__AGENT": self._scenario.run_agent,
            "AGOR_EXECUTION__AGENTS_FOLDER": os.environ["AGOR_AGENTS"],
            "AGOR_DAEMON__PORT": self._ports.get("3030", "0"),
        }
        with reader(PROGRAMS, **environment) as person:
            self._values |= {"tmp": str(person.folder / "tmp"), "home": str(person.folder / "home")}
            self._prepare(person)
            for example in self._examples:
                self._try(person, example)

    def _prepare(self, person: Reader) -> None:
        place = f"{self._examples[0].document}: before its first example"
        if any("agor credential set" in each.text for each in self._examples):
            output = person.start("agor model-server --port 0\n", place, "http://")
            self._values["model"] = re.findall(r"http://[\w.:]+", output.read_text())[0]
        self._run(person, self._replaced(self._scenario.prepare), place)

    def _try(self, person: Reader, example: Example) -> None:
        place, first = (example.document, example.text.strip()), example.place
        if any(place[0] == where and place[1].startswith(text) for where, text in NOT_EXAMPLES):
            return
        for (where, text), command in SHOWN.items():
            if place[0] == where and place[1].startswith(text):
                compare(example, self._run(person, f"{command}\n", first))
                return
        if example.language in _SHELL:
            self._shown = self._run(person, self._typed(example), first)
        elif example.language == "python":
            self._shown = self._run(person, self._file(person, example, "python {}"), first)
        elif example.language == "yaml":
            self._run(person, self._file(person, example, "cp {} $AGOR_HOME/config.yaml"), first)
            self._run(person, "agor config list\n", first)
        elif example.language == "json":
            self._give(person, example)
        else:
            pytest.fail(f"{first}: say in NOT_EXAMPLES or SHOWN of scenarios.py what this block is")

    def _give(self, person: Reader, example: Example) -> None:
        """Try JSON: a script for an agent or for a model, or what was shown just before."""
        value = json.loads(example.text)
        if isinstance(value, list):
            command = 'agor run --agent scripted "$(cat {})"'
            self._run(person, self._file(person, example, command), example.place)
        elif "model_script" in value:
            self._run(person, self._file(person, example, 'agor run "$(cat {})"'), example.place)
        else:
            compare(example, self._shown)

    def _file(self, person: Reader, example: Example, command: str) -> str:
        """Write an example to a file; gives a command with its path."""
        path = person.folder / f"{example.line}.{example.language}"
        path.write_text(self._replaced(example.text), encoding="utf-8")
        return command.format(path) + "\n"

    def _typed(self, example: Example) -> str:
        """Give what is run of a block of commands."""
        lines = typed_in(example)
        kept = [line for line in lines if not any(re.match(each, line) for each in NOT_RUN)]
        return self._replaced("".join(f"{line}\n" for line in kept))

    def _replaced(self, text: str) -> str:
        text = _PORTS.sub(lambda found: self._ports[found[0]], text)
        return replaced(text, self._values)

    def _run(self, person: Reader, script: str, place: str) -> str:
        """Run a script to its end, or to where it stays."""
        for pattern, until in STAYS.items():
            if re.search(pattern, script):
                person.start(script, place, until)
                return ""
        return person.run(script, place) if script else ""


def typed_in(example: Example) -> list[str]:
    """Give the lines that a reader types: all of a `sh` block, those with a prompt of `console`."""
    lines = example.text.splitlines()
    if example.language == "console":
        return [line[2:] for line in lines if line.startswith(("$ ", "> "))]
    return lines


def compare(example: Example, shown: str) -> None:
    """Compare what a document shows with what was shown: the shape of JSON, else the lines."""
    if example.language == "json":
        lines = [line for line in shown.splitlines() if line.startswith("{")]
        assert lines, f"{example.place}: JSON is shown here; there was none:\n{shown}"
        assert shape(json.loads(lines[-1])) == shape(json.loads(example.text)), example.place
        return
    rest = _VARIABLE.sub("0", shown)
    for line in filter(None, map(str.strip, example.text.splitlines())):
        _, found, rest = rest.partition(_VARIABLE.sub("0", line))
        assert found, f"{example.place}: {line!r} was not shown:\n{shown}"


def shape(value: Any) -> Any:
    """Reduce JSON to its members and the kinds of their values."""
    if isinstance(value, dict):
        return {name: shape(each) for name, each in value.items()}
    if isinstance(value, list):
        return [shape(each) for each in value]
    return type(value)
