"""Which rule decides which question: scopes, members, modes, the order of all of them."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agor.daemon.services.rules.book import RuleBook, judge
from agor.daemon.services.rules.drafting import draft, draft_from_answer
from agor.daemon.services.rules.matching import Question, Rule
from agor.daemon.services.rules.modes import EDITING_TOOLS
from agor.daemon.services.rules.reading import canonical
from agor.daemon.services.rules.rules import Rules
from agor.errors import Unprocessable
from agor.protocol.api import Decision, DecisionRule
from agor.protocol.methods import PermissionMode
from agor.protocol.rules import NewRule

NOW = 1_800_000_000_000


def a_question(tool: str = "Bash", mode: PermissionMode = "default", **more: Any) -> Question:
    return Question(
        **{
            "user_id": "ann",
            "session_id": "s1",
            "workspace": "/repo",
            "tool": tool,
            "input": {"command": "git status"},
            "mode": mode,
            **more,
        }
    )


def a_rule(effect: str = "allow", tool: str = "Bash", rule_id: str = "r1", **more: Any) -> Rule:
    form = {"effect": effect, "tool": tool, "scope": "user", **more}
    if "exact_input" not in form:
        form.setdefault("input", {})
    new = msgspec.convert(form, NewRule)
    return draft(new, rule_id=rule_id, user_id="ann", created_at=NOW, at=NOW)


def decided(question: Question, *rules: Rule, at: int = NOW) -> tuple[bool, str] | None:
    verdict = judge(rules, question, at)
    return None if verdict is None else (verdict.approved, verdict.by)


# ── scope, time, maker ───────────────────────────────────────────────────────────────────────


def test_a_rule_never_decides_for_somebody_else() -> None:
    rule = a_rule()
    assert decided(a_question(), rule) == (True, "r1")
    assert decided(a_question(user_id="bob"), rule) is None
    for scope, scope_id in (("session", "s1"), ("workspace", "/repo")):
        assert decided(a_question(user_id="bob"), a_rule(scope=scope, scope_id=scope_id)) is None


def test_a_book_looks_at_the_rules_of_whoever_asks() -> None:
    book = RuleBook()
    book.add(a_rule())
    assert book.judge(a_question(), NOW) is not None
    assert book.judge(a_question(user_id="bob"), NOW) is None
    book.remove(a_rule().row)
    assert book.judge(a_question(), NOW) is None


@pytest.mark.parametrize(
    ("scope", "scope_id", "good", "bad"),
    [
        ("session", "s1", {}, {"session_id": "s2"}),
        ("workspace", "/repo", {"session_id": "s2"}, {"workspace": "/repo2"}),
        ("workspace", "/repo", {"workspace": "/repo/"}, {"workspace": "/repo/sub"}),
        ("workspace", "/repo", {}, {"workspace": "/"}),
        ("user", None, {"workspace": "/else", "session_id": "s2"}, {"user_id": "bob"}),
    ],
)
def test_a_rule_holds_in_its_scope(
    scope: str, scope_id: str | None, good: dict[str, Any], bad: dict[str, Any]
) -> None:
    rule = a_rule(scope=scope, scope_id=scope_id)
    assert decided(a_question(**good), rule) == (True, "r1")
    assert decided(a_question(**bad), rule) is None


def test_a_rule_ends_at_the_millisecond_that_it_says() -> None:
    rule = a_rule(expires_at=NOW + 1000)
    assert decided(a_question(), rule, at=NOW + 999) == (True, "r1")
    assert decided(a_question(), rule, at=NOW + 1000) is None
    book = RuleBook()
    book.add(rule)
    assert book.of("ann", NOW + 999) == [rule]
    assert book.of("ann", NOW + 1000) == []
    assert book.of("ann", NOW) == [], "it is forgotten"


def test_a_revoked_rule_decides_nothing() -> None:
    rule = Rule(msgspec.structs.replace(a_rule().row, revoked_at=NOW - 1))
    assert decided(a_question(), rule) is None


# ── tool and input ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("tool", "name", "expected"),
    [
        ("Bash", "Bash", True), ("Bash", "bash", False), ("Bash", "BashOutput", False),
        ("Bash*", "BashOutput", True), ("mcp__git__*", "mcp__git__push", True),
        ("mcp__git__*", "mcp__gitlab__push", False), ("mcp__*__read", "mcp__git__read", True),
        ("Bash\\*", "Bash*", True), ("Bash\\*", "Bashful", False),
    ],
)  # fmt: skip
def test_tools_are_named_exactly_or_by_stars(tool: str, name: str, expected: bool) -> None:
    assert (decided(a_question(name), a_rule(tool=tool)) is not None) is expected


@pytest.mark.parametrize("effect", ["allow", "deny"])
def test_a_rule_that_names_a_member_needs_it(effect: str) -> None:
    rule = a_rule(effect, input={"command": "*"})
    for tool_input in ({}, {"Command": "x"}, {"x": {"command": "x"}}, {"command ": "x"}):
        assert decided(a_question(input=tool_input), rule) is None
    assert decided(a_question(input={"command": ""}), rule) is not None


def test_all_members_that_are_named_have_to_fit() -> None:
    rule = a_rule(input={"command": "git *", "cwd": "./**"})
    good = {"command": "git log", "cwd": "/repo/a", "description": "whatever; it is"}
    assert decided(a_question(input=good), rule) == (True, "r1")
    for bad in ({"cwd": "/etc"}, {"command": "rm x"}, {"cwd": 5}):
        assert decided(a_question(input=good | bad), rule) is None


@pytest.mark.parametrize(
    ("name", "tool_input"),
    [
        ("/a/b", {"a": {"b": "x"}}), ("/a/0", {"a": ["x"]}), ("/a/1/b", {"a": [1, {"b": "x"}]}),
        ("/a~1b", {"a/b": "x"}), ("/~0", {"~": "x"}), ("a.b", {"a.b": "x"}), ("/", {"": "x"}),
        ("/0", {"0": "x"}),
    ],
)  # fmt: skip
def test_nested_members_are_pointed_at(name: str, tool_input: dict[str, Any]) -> None:
    rule = a_rule(input={name: "x"})
    assert decided(a_question(input=tool_input), rule) == (True, "r1")


@pytest.mark.parametrize(
    ("name", "tool_input"),
    [
        ("/a/b", {"a": "b"}), ("/a/0", {"a": {}}), ("/a/00", {"a": ["x"]}), ("/a/1", {"a": ["x"]}),
        ("/a/-1", {"a": ["x"]}), ("/a/-", {"a": ["x"]}), ("/a/²", {"a": ["x", "x", "x"]}),
        ("/a/9999999999999999999", {"a": ["x"]}), ("a.b", {"a": {"b": "x"}}), ("/a", {"/a": "x"}),
        ("/a/0/0", {"a": ["x"]}),
    ],
)  # fmt: skip
def test_what_is_not_where_it_is_pointed_at_is_missing(
    name: str, tool_input: dict[str, Any]
) -> None:
    assert decided(a_question(input=tool_input), a_rule(input={name: "**"})) is None


@pytest.mark.parametrize("name", ["dangerouslyDisableSandbox", "sandbox_permissions"])
def test_a_call_that_widens_what_it_may_do_needs_a_rule_that_says_so(name: str) -> None:
    tool_input = {"command": "git status", name: True}
    assert decided(a_question(input=tool_input), a_rule(input={"command": "git *"})) is None
    assert decided(a_question(input=tool_input), a_rule(input={})) is None
    assert decided(a_question(input=tool_input | {name: False}), a_rule()) == (True, "r1")
    assert decided(a_question(input=tool_input), a_rule(input={name: "true"})) == (True, "r1")
    assert decided(a_question(input=tool_input), a_rule("deny")) == (False, "r1")


# ── the order ────────────────────────────────────────────────────────────────────────────────


def test_a_no_wins_over_every_yes() -> None:
    yes, no = a_rule(rule_id="yes"), a_rule("deny", "*", rule_id="no")
    for rules in ((yes, no), (no, yes)):
        assert decided(a_question(), *rules) == (False, "no")
    assert decided(a_question(mode="bypassPermissions"), yes, no) == (False, "no")
    edit = a_question("Edit", "acceptEdits", input={"file_path": "/repo/a"})
    assert decided(edit, no) == (False, "no")


def test_the_mode_comes_before_a_yes() -> None:
    assert decided(a_question(mode="bypassPermissions"), a_rule()) == (
        True, "mode:bypassPermissions",
    )  # fmt: skip


def test_who_has_no_rule_and_no_mode_is_asked() -> None:
    assert decided(a_question()) is None
    assert decided(a_question(mode="plan")) is None
    assert decided(a_question(mode="acceptEdits")) is None


def test_the_oldest_of_several_rules_is_named() -> None:
    book = RuleBook()
    for name, at in (("b", NOW), ("a", NOW), ("c", NOW - 5)):
        book.add(Rule(msgspec.structs.replace(a_rule(rule_id=name).row, created_at=at)))
    verdict = book.judge(a_question(), NOW)
    assert verdict is not None
    assert verdict.by == "c"


def test_the_reason_names_the_rule_and_says_why() -> None:
    verdict = judge([a_rule("deny", reason="we deploy by hand")], a_question(), NOW)
    assert verdict is not None
    assert verdict.reason == "denied by the rule r1: we deploy by hand"


def test_what_is_nested_too_deeply_is_for_a_person_to_look_at() -> None:
    nested: dict[str, Any] = {}
    for _ in range(5000):
        nested = {"x": nested}
    question = a_question("apply_patch", "acceptEdits", input={"changes": nested})
    service = Rules(cast("Any", None), cast("Any", None))
    assert service.judge(question) is None


# ── modes ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("tool", "tool_input"),
    [
        ("Edit", {"file_path": "/repo/a.py"}), ("Write", {"file_path": "a.py"}),
        ("MultiEdit", {"file_path": "/repo/a/b"}), ("NotebookEdit", {"notebook_path": "/repo/n"}),
        ("replace", {"file_path": "/repo/a"}), ("write_file", {"file_path": "/repo/a"}),
        ("edit", {"filePath": "/repo/a"}), ("write", {"filePath": "/repo/a"}),
        ("fileChange", {"changes": [{"path": "/repo/a"}, {"path": "b"}]}),
        ("apply_patch", {"changes": {"/repo/a": {"type": "add"}}}),
    ],
)  # fmt: skip
def test_accept_edits_is_for_edits_in_the_workspace(tool: str, tool_input: dict[str, Any]) -> None:
    question = a_question(tool, "acceptEdits", input=tool_input)
    assert decided(question) == (True, "mode:acceptEdits")
    assert decided(msgspec.structs.replace(question, mode="default")) is None
    assert decided(msgspec.structs.replace(question, mode="plan")) is None


@pytest.mark.parametrize(
    ("tool", "tool_input"),
    [
        ("Bash", {"command": "touch a"}), ("Bash", {"file_path": "/repo/a"}), ("Edit", {}),
        ("Edit", {"file_path": None}), ("Edit", {"file_path": ["/repo/a", 5]}),
        ("Edit", {"file_path": "/etc/passwd"}), ("Edit", {"file_path": "/repo/../etc/passwd"}),
        ("Edit", {"file_path": "../x"}), ("Edit", {"file_path": "/repository/a"}),
        ("Edit", {"file_path": "/repo"}), ("Edit", {"file_path": "~/.bashrc"}),
        ("Edit", {"file_path": "/repo/.git/hooks/pre-commit"}), ("Edit", {"path": "/repo/a"}),
        ("Edit", {"file_path": "a/.git/config"}), ("edit", {"file_path": "/repo/a"}),
        ("Write", {"file_path": "/repo/.claude/settings.json"}),
        ("write_file", {"file_path": "sub/.Gemini/settings.json"}),
        ("edit", {"filePath": "/repo/opencode.json"}),
        ("apply_patch", {"changes": {".codex/config.toml": {"type": "add"}}}),
        ("fileChange", {"changes": [{"path": "/repo/a"}], "grantRoot": "/"}),
        ("fileChange", {"changes": []}), ("fileChange", {}), ("fileChange", {"changes": "x; y"}),
        ("fileChange", {"changes": [{"path": "/repo/a"}, {"path": "/etc/x"}]}),
        ("fileChange", {"changes": [{"path": "/repo/a"}, {}]}),
        ("fileChange", {"changes": [{"path": "a", "kind": {"move_path": "/etc/x"}}]}),
        ("apply_patch", {"changes": {"a": {"update": {"move_path": "/etc/x"}}}}),
        ("apply_patch", {"changes": {"/etc/x": {}}}),
    ],
)  # fmt: skip
def test_accept_edits_is_for_nothing_else(tool: str, tool_input: dict[str, Any]) -> None:
    assert decided(a_question(tool, "acceptEdits", input=tool_input)) is None


@pytest.mark.parametrize("tool", EDITING_TOOLS)
def test_who_only_plans_is_asked_before_anything_is_changed(tool: str) -> None:
    question = a_question(tool, "plan")
    assert decided(question, a_rule(tool=tool)) is None
    assert decided(question, a_rule("deny", tool)) == (False, "r1")
    assert decided(a_question("Read", "plan"), a_rule(tool="Read")) == (True, "r1")


# ── drafting ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"input": None}, "body.input"),
        ({"exact_input": {}, "input": {}}, "body.input"),
        ({"tool": "*"}, "begins with the tool's name"),
        ({"tool": "*Edit", "input": {"file_path": "./**"}}, "begins with the tool's name"),
        ({"input": {"command": "* --version"}}, "any program"),
        ({"input": {"path": "~/x"}}, "home"),
        ({"input": {"url": "https://example.org*"}}, "host"),
        ({"expires_at": NOW}, "past"),
        ({"scope_id": "bob"}, "nobody but who makes it"),
        ({"scope": "session"}, "which session"),
        ({"scope": "workspace"}, "which workspace"),
        ({"exact_input": {"x": "y" * 20_000}}, "bytes of input exactly"),
    ],
)
def test_what_would_allow_too_much_or_nothing_is_refused(form: dict[str, Any], words: str) -> None:
    with pytest.raises(Unprocessable, match=words.replace("*", r"\*")) as refused:
        a_rule(**form)
    assert refused.value.message


def test_a_no_may_be_as_wide_as_somebody_likes() -> None:
    assert decided(a_question(), a_rule("deny", "*")) == (False, "r1")
    version = a_question(input={"command": "python --version"})
    assert decided(version, a_rule("deny", input={"command": "* --version"})) == (False, "r1")


# ── rules that are made with an answer ───────────────────────────────────────────────────────

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(max_size=8)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
INPUTS = st.dictionaries(
    st.text(max_size=6) | st.sampled_from(["command", "path"]), VALUES, max_size=4
)
TOOLS = st.text(min_size=1, max_size=8) | st.text(alphabet="ab*\\", min_size=1, max_size=6)


@given(TOOLS, INPUTS, TOOLS, INPUTS, st.booleans())
def test_an_answer_without_a_rule_is_for_exactly_this_question(
    tool: str, tool_input: dict[str, Any], other_tool: str, other: dict[str, Any], approved: bool
) -> None:
    assume("\0" not in tool)
    question = a_question(tool, input=tool_input)
    decision = Decision(approved=approved, scope="user")
    rule = draft_from_answer(decision, question, "p1", rule_id="r1", created_at=NOW, at=NOW)
    assert decided(question, rule) == (approved, "r1")
    assert rule.row.permission_id == "p1"
    same = canonical(other) == canonical(tool_input)
    assert rule.would_decide(a_question(tool, input=other)) == same
    assert rule.would_decide(a_question(other_tool, input=tool_input)) == (other_tool == tool)
    assert not rule.would_decide(a_question(tool, input={**tool_input, "one more": 1}))


def test_the_order_of_members_does_not_matter_and_their_number_does() -> None:
    question = a_question(input={"a": 1, "b": {"c": 1, "d": 2}})
    decision = Decision(approved=True, scope="session")
    rule = draft_from_answer(decision, question, "p1", rule_id="r1", created_at=NOW, at=NOW)
    assert rule.would_decide(a_question(input={"b": {"d": 2, "c": 1}, "a": 1}))
    assert not rule.would_decide(a_question(input={"a": 1, "b": {"c": 1}}))
    assert not rule.would_decide(a_question(input={"a": "1", "b": {"c": 1, "d": 2}}))
    assert not rule.would_decide(a_question(input={"a": True, "b": {"c": 1, "d": 2}}))


def test_a_rule_that_misses_its_own_question_is_refused() -> None:
    for form in (DecisionRule(input={"command": "git log*"}), DecisionRule(tool="Read")):
        decision = Decision(approved=True, scope="user", rule=form)
        with pytest.raises(Unprocessable, match="the very request"):
            draft_from_answer(decision, a_question(), "p1", rule_id="r1", created_at=NOW, at=NOW)


def test_an_expiry_alone_leaves_the_rule_exact() -> None:
    decision = Decision(approved=True, scope="user", rule=DecisionRule(expires_at=NOW + 1))
    rule = draft_from_answer(decision, a_question(), "p1", rule_id="r1", created_at=NOW, at=NOW)
    assert rule.row.exact_input == b'{"command":"git status"}'
    assert rule.row.expires_at == NOW + 1
