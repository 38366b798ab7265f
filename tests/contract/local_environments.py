"""Local environments for tests: in a new workspace, as ourselves, by setuid or through sudo."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from agor.environments.identity import UnixIdentity, way_to
from agor.environments.local import LocalEnvironment

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")

#: A user that whoever runs the tests may become through sudo, without a password.
SUDO_USER = os.environ.get("AGOR_TEST_SUDO_USER", "")

MAY_SUDO = bool(SUDO_USER and shutil.which("sudo") and os.geteuid() != 0)
NO_SUDO = "needs a user other than root, sudo, and AGOR_TEST_SUDO_USER"

through_sudo = pytest.mark.skipif(not MAY_SUDO, reason=NO_SUDO)


@contextmanager
def new_user() -> Iterator[UnixIdentity]:
    """Make a real Unix user, for a while."""
    name = f"agor-kit-{uuid.uuid4().hex[:8]}"
    subprocess.run(["useradd", "-m", "-s", "/bin/sh", name], check=True, capture_output=True)
    try:
        yield UnixIdentity.of(name)
    finally:
        subprocess.run(["userdel", "-r", name], check=True, capture_output=True)


@asynccontextmanager
async def local_environment(
    identity: UnixIdentity | None = None,
) -> AsyncIterator[LocalEnvironment]:
    """Make an environment in a new folder that belongs to its user."""
    with new_folder(identity or UnixIdentity.current()) as workspace:
        environment = await LocalEnvironment.create(workspace, identity)
        try:
            yield environment
        finally:
            await environment.terminate()


@contextmanager
def new_folder(identity: UnixIdentity) -> Iterator[str]:
    """Make a folder that belongs to a user, for a while."""
    if way_to(identity) == "sudo":
        by = ["sudo", "-n", "-u", identity.name]
        made = subprocess.run([*by, "mktemp", "-d"], check=True, capture_output=True, text=True)
        folder = made.stdout.strip()
    else:
        by = []
        folder = tempfile.mkdtemp(prefix="agor-kit-")
        os.chown(folder, identity.uid, identity.gid)
    try:
        yield folder
    finally:
        subprocess.run([*by, "chmod", "-R", "u+rwX", folder], check=True)
        subprocess.run([*by, "rm", "-rf", folder], check=True)
        assert not Path(folder).exists()
