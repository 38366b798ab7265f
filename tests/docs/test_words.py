"""Every command that the documentation names has words that its parser takes, run or not."""

from __future__ import annotations

import re

import pytest

from tests.docs.command_words import commands_in, wrong_in_command, wrong_in_usage
from tests.docs.examples import DOCUMENTS, Example, examples, mentions, name_of
from tests.docs.scenarios import NOT_EXAMPLES, NOT_RUN, SCENARIOS, SHOWN, STAYS

#: Commands of projects that readers work on.
_NOT_OURS = re.compile(r"make test-(\*|unit\b.*)")
ALL = [example for document in DOCUMENTS for example in examples(document)]
_SHELL = [example for example in ALL if example.language in {"sh", "bash", "console"}]


@pytest.mark.parametrize("example", _SHELL, ids=lambda example: example.place)
def test_a_command_in_an_example_is_one_that_its_parser_takes(example: Example):
    wrong = [
        f"{example.place}: {' '.join(words)}: {why}"
        for words in commands_in(example.text)
        if (why := wrong_in_command(words))
    ]
    assert wrong == []


@pytest.mark.parametrize("example", _SHELL, ids=lambda example: example.place)
def test_an_example_can_be_typed_as_it_is_printed(example: Example):
    lines = [re.sub(r"(^|\s)#.*", "", line) for line in example.text.splitlines()]
    left_out = [line for line in lines if "…" in line]
    assert left_out == [], f"{example.place}: say what is left out"


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_a_command_in_running_text_exists_with_the_options_it_is_named_with(document):
    wrong = [
        f"{each.document}:{each.line}: `{each.text}`: {why}"
        for each in mentions(document)
        if not _NOT_OURS.fullmatch(each.text) and (why := wrong_in_usage(each.text))
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("agor sesion list", "no command 'agor sesion'"),
        ("agor session lst", "no command 'agor session lst'"),
        ("agor session list --jsn", "No such option"),
        ("agor session share 0192f7", "Missing argument"),
        ("echo $(agor session lst)", "agor session lst"),
        ("A=1 agor config set daemon.prt 1", "daemon.prt"),
        (".venv/bin/agor-executor --sock /x", "--sock"),
        ("make tests", "'tests'"),
    ],
)
def test_wrong_words_are_found(line, said):
    (words,) = commands_in(line)
    assert said in (wrong_in_command(words) or "nothing is wrong")


def test_the_tables_of_the_trial_name_only_what_is_documented():
    lines = [line for example in _SHELL for line in example.text.splitlines()]
    stale = [each for each in NOT_RUN if not any(re.match(each, line) for line in lines)]
    stale += [each for each in STAYS if not any(re.search(each, one.text) for one in ALL)]
    stale += [
        f"{document}: {text}"
        for document, text in (*NOT_EXAMPLES, *SHOWN)
        if not any(one.document == document and one.text.strip().startswith(text) for one in ALL)
    ]
    stale += sorted(SCENARIOS.keys() - {one.document for one in ALL})
    assert stale == [], "no document has these any more: take them out of tests/docs/scenarios.py"
