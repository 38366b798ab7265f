"""Every kind of environment passes the certification."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agor.environments.identity import UnixIdentity
from agor.testing.certification import EnvironmentCertification
from tests.contract.local_environments import (
    MAY_SUDO,
    NO_SUDO,
    SUDO_USER,
    as_root,
    local_environment,
    new_user,
)


@pytest.fixture(scope="module")
def somebody() -> Iterator[UnixIdentity]:
    with new_user() as made:
        yield made


class TestLocalAsOurselves(EnvironmentCertification):
    def make(self):
        return local_environment()


@as_root
class TestLocalAsSomebodyElse(EnvironmentCertification):
    @pytest.fixture(autouse=True)
    def become(self, somebody: UnixIdentity) -> None:
        self.identity = somebody

    def make(self):
        return local_environment(self.identity)


if MAY_SUDO:

    class TestLocalThroughSudo(EnvironmentCertification):
        def make(self):
            return local_environment(UnixIdentity.of(SUDO_USER))

else:

    def test_local_through_sudo() -> None:
        pytest.skip(NO_SUDO)
