"""Which agent may have which keys, as the catalogue says. No agent gets any other."""

from __future__ import annotations

from collections.abc import Mapping

from agor.catalogue import CATALOGUE

#: None: whatever it asks for, since what it talks to is up to its owner.
NEEDS: Mapping[str, frozenset[str] | None] = {
    "scripted": None,
    **{
        agent.name: None if agent.any_key else frozenset(agent.keys) for agent in CATALOGUE.values()
    },
}
#: What the name of any agent begins with that speaks ACP and has no module of its own.
_ACP = "acp:"


def is_known(agent: str) -> bool:
    """Tell whether there is such an agent."""
    return agent in NEEDS or (agent.startswith(_ACP) and agent != _ACP)


def needs(agent: str, name: str) -> bool:
    """Tell whether an agent may have a key of this name at all."""
    if not is_known(agent):
        return False
    names = NEEDS.get(agent)
    return names is None or name in names


def needed_by(agent: str) -> str:
    """List what an agent may have, for people."""
    names = NEEDS.get(agent)
    return "any" if names is None else ", ".join(sorted(names))
