"""The table of who may do what: complete, fail-closed, and as the reference says."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from agor.daemon.api.routes import ROUTES
from agor.daemon.services import access
from agor.daemon.services.access import RULES, Action, Rule, Tie
from agor.daemon.services.principal import Principal
from agor.errors import Forbidden
from agor.protocol.people import Role, ShareAccess

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "access.md"
ROLES: tuple[Role, ...] = get_args(Role)
TIES: tuple[Tie, ...] = get_args(Tie)


def who(role: Role, user_id: str = "me") -> Principal:
    return Principal(user_id=user_id, name="ada", role=role)


def row_of(action: Action, rule: Rule) -> str:
    """The row of an action, as the reference has it."""
    cells = []
    for tie in TIES:
        roles = [role for role in ROLES if role in getattr(rule, tie)]
        cells.append("everybody" if len(roles) == len(ROLES) else ", ".join(roles) or "nobody")
    return f"| `{action}` | {' | '.join(cells)} |"


def test_every_action_has_a_rule_and_every_rule_an_action():
    assert set(RULES) == set(get_args(Action))


#: Asked for by what is in the query: the team's credential instead of one's own.
BY_THE_QUERY = {"credential.keep_team"}


@pytest.mark.parametrize("action", sorted(set(get_args(Action)) - BY_THE_QUERY))
def test_every_action_is_asked_for_by_a_route(action: Action):
    assert any(route.action == action for route in ROUTES)


@pytest.mark.parametrize(("action", "rule"), RULES.items())
def test_the_reference_has_every_rule(action: Action, rule: Rule):
    assert row_of(action, rule) in REFERENCE.read_text(encoding="utf-8").splitlines()


def test_the_reference_has_no_other_rule():
    rows = {row_of(action, rule) for action, rule in RULES.items()}
    found = REFERENCE.read_text(encoding="utf-8").splitlines()
    assert {line for line in found if line.startswith("| `")} == rows


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("tie", TIES)
def test_a_higher_role_may_all_that_a_lower_one_may(role: Role, tie: Tie):
    for higher in ROLES[: ROLES.index(role)]:
        for action in RULES:
            assert access.may(who(higher), action, tie) or not access.may(who(role), action, tie)


@pytest.mark.parametrize("role", ROLES)
def test_nobody_acts_in_anothers_name(role: Role):
    """Whatever runs as somebody, or on their keys, takes them or a share of theirs."""
    for action in (
        "session.prompt", "permission.decide", "session.share", "session.change", "terminal.open",
        "terminal.use",
    ):  # fmt: skip
        assert not access.may(who(role), action, "none")
        assert not access.may(who(role), action, "view")


@pytest.mark.parametrize("role", ROLES)
def test_a_shell_as_somebody_is_theirs_alone(role: Role):
    """A share to prompt goes through the agent, which asks; a shell asks nobody."""
    assert not access.may(who(role), "terminal.open", "prompt")
    assert not access.may(who(role), "terminal.use", "prompt")


@pytest.mark.parametrize("action", get_args(Action))
@pytest.mark.parametrize("role", ROLES)
def test_a_role_that_may_do_something_to_nothing_is_refused_before_it_is_looked_for(
    action: Action, role: Role
):
    able = any(access.may(who(role), action, tie) for tie in TIES)
    if able:
        access.check_role(who(role), action)
    else:
        with pytest.raises(Forbidden, match=action.replace(".", r"\.")):
            access.check_role(who(role), action)


def test_a_tie_is_to_oneself_then_by_a_share_then_none():
    shares: dict[str, ShareAccess] = {"me": "prompt", "you": "view"}
    assert access.tie_to(who("viewer"), "me", {}) == "own"
    assert access.tie_to(who("viewer"), "other", shares) == "prompt"
    assert access.tie_to(who("viewer", "you"), "other", shares) == "view"
    assert access.tie_to(who("owner", "they"), "other", shares) == "none"


@pytest.mark.parametrize("role", ROLES)
def test_all_is_for_those_who_may_look_at_everything(role: Role):
    circle = access.circle_of(who(role), "all")
    assert (circle is None) == (role in ("owner", "admin"))
    for whose in ("mine", "shared", None):
        assert access.circle_of(who(role), whose) is not None
