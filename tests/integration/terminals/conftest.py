"""Executors for terminals: one of the test's own, since what it leaves behind is counted."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.integration.executor_process import ExecutorProcess
from tests.integration.terminals.screens import Onlooker, looking_at


@pytest.fixture
def executor(own_executor: ExecutorProcess) -> ExecutorProcess:
    """An executor of the test's own."""
    return own_executor


@pytest.fixture
async def side(executor: ExecutorProcess) -> AsyncIterator[Onlooker]:
    """A daemon connected to it."""
    async with looking_at(executor) as connected:
        yield connected
