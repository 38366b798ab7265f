"""Which kinds of environment there are, by name. A kind is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from agor.environments.base import EnvironmentPrimitive
from agor.errors import BadInput

#: Makes an environment that is ready for use. What it takes depends on the kind.
Factory = Callable[..., Awaitable[EnvironmentPrimitive]]


def _local() -> Factory:
    from agor.environments.local import LocalEnvironment

    return LocalEnvironment.create


_KINDS: dict[str, Callable[[], Factory]] = {"local": _local}


def register_kind(name: str, load: Callable[[], Factory]) -> None:
    """Add a kind; `load` is called when it is asked for, to import what it needs."""
    if name in _KINDS:
        raise BadInput(f"there is a kind of environment named {name!r} already")
    _KINDS[name] = load


def factory_of(name: str) -> Factory:
    """Look a kind up, or say which ones there are."""
    try:
        load = _KINDS[name]
    except KeyError:
        known = ", ".join(sorted(_KINDS))
        raise BadInput(
            f"there is no kind of environment named {name!r}", hint=f"Known kinds: {known}."
        ) from None
    return load()
