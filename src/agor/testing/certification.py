"""The certification of environments: every kind has to pass the same cases.

Say how to make an environment, and pytest collects the cases (with pytest-asyncio):

    import pytest
    pytest.register_assert_rewrite("agor.testing")
    from agor.testing.certification import EnvironmentCertification

    class TestMyKind(EnvironmentCertification):
        @asynccontextmanager
        async def make(self):
            environment = await MyEnvironment.create(…)
            try:
                yield environment
            finally:
                await environment.terminate()

The environment needs an empty workspace that its user may write to, and a POSIX shell and tools
inside. Each case gets an environment of its own.
"""

from __future__ import annotations

from agor.testing.command_cases import CommandCases
from agor.testing.ending_cases import EndingCases
from agor.testing.file_cases import FileCases
from agor.testing.listing_cases import ListingCases
from agor.testing.streaming_cases import StreamingCases
from agor.testing.watch_cases import WatchCases


class EnvironmentCertification(
    CommandCases, StreamingCases, EndingCases, FileCases, ListingCases, WatchCases
):
    """All cases. Name a subclass `Test…`, and give it `make`."""
