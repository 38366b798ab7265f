"""What can be chosen in an ACP session: its mode, its model. Agents tell it in two ways."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from acp import ClientSideConnection

Ask = Callable[[Awaitable[Any]], Awaitable[Any]]


class Options:
    """The modes and options of one session, as the agent told of them."""

    def __init__(self, connection: ClientSideConnection, session_id: str, told: Any) -> None:
        self._connection = connection
        self._session_id = session_id
        self._modes = told.modes
        self._options: list[Any] = list(told.config_options or [])

    async def choose(self, category: str, value: str, ask: Ask) -> bool:
        """Set the option of a category; false if there is none."""
        option = self._option(category)
        if option is None:
            return False
        if option.current_value != value:
            request = self._connection.set_config_option(
                config_id=option.id, session_id=self._session_id, value=value
            )
            answer = await ask(request)
            self._options = list(answer.config_options or self._options)
        return True

    def offers(self, category: str, value: str) -> bool:
        """Tell whether the option of a category can have a value."""
        option = self._option(category)
        return option is not None and any(each.value == value for each in _choices(option))

    async def choose_mode(self, words: Sequence[str], ask: Ask) -> bool:
        """Set the first of these modes that there is; false if there is none of them."""
        if self._modes is None:
            option = self._option("mode")
            known = [] if option is None else [each.value for each in _choices(option)]
        else:
            known = [mode.id for mode in self._modes.available_modes]
        wanted = next((word for word in words if word in known), None)
        if wanted is None:
            return False
        if self._modes is None:
            return await self.choose("mode", wanted, ask)
        if self._modes.current_mode_id != wanted:
            await ask(
                self._connection.set_session_mode(session_id=self._session_id, mode_id=wanted)
            )
            self._modes.current_mode_id = wanted
        return True

    def _option(self, category: str) -> Any:
        fitting = (
            each for each in self._options if each.category == category and each.type == "select"
        )
        return next(fitting, None)


def _choices(option: Any) -> list[Any]:
    """List the values of an option, which may be in groups."""
    found: list[Any] = []
    for each in option.options:
        found += each.options if hasattr(each, "group") else [each]
    return found
