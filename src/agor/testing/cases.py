"""What every group of certification cases starts from: an environment, made anew for each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

import pytest
import pytest_asyncio

from agor.environments.base import EnvironmentPrimitive


@pytest.mark.asyncio
class Cases:
    """Makes the environment of a case."""

    def make(self) -> AbstractAsyncContextManager[EnvironmentPrimitive]:
        """Make a running environment with an empty workspace, and end it afterwards."""
        raise NotImplementedError("say how to make an environment, in `make`")

    @pytest_asyncio.fixture
    async def environment(self) -> AsyncIterator[EnvironmentPrimitive]:
        """Provide the environment of one case."""
        async with self.make() as environment:
            yield environment
