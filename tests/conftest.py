"""Generated examples are the same in every run, so that a failure is about the change at hand.

`pytest --hypothesis-profile=explore` looks for new ones.
"""

import gc
import signal
from collections import Counter

import pytest
from hypothesis import settings

from agor.daemon.store.sqlite import process
from tests import nursery

# Before anything imports it: its cases are tests as well.
pytest.register_assert_rewrite("agor.testing")

settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.register_profile("explore", max_examples=5000, deadline=None)
settings.load_profile("repeatable")

# Whatever starts the tests may ignore these (nohup, a shell's background): then so do they, but not
# the programs that they start, whose handlers are the default ones again.
for _number in (signal.SIGHUP, signal.SIGINT):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, lambda *_: None)

# What a store of a test's own process starts; daemons of their own processes start the real one.
process.spawn = nursery.spawn_writer  # type: ignore[assignment]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a file together, and all of those that make Unix users: see the Makefile.

    What a file sets up once is then set up once, also with several processes.
    """
    if repeated := [name for name, times in Counter(i.nodeid for i in items).items() if times > 1]:
        # Of those with one name, only one would be run where there are several processes.
        raise pytest.UsageError(f"several tests have the name {repeated[0]}")
    for item in items:
        together = "impersonation" if "impersonation" in item.path.parts else str(item.path)
        if (part := _part_of(item)) and together != "impersonation":
            together = f"{together}[{part}]"
        item.add_marker(pytest.mark.xdist_group(together))


def pytest_collection_finish() -> None:
    """Have the garbage collector pass over thousands of tests that stay until the end."""
    gc.collect()
    gc.freeze()


def _part_of(item: pytest.Item) -> object:
    """Name the agent or the document that a test is about.

    Those of one agent stay together: starting it is what takes long, and agents differ in that.
    Documents take long as well, and have nothing in common.
    """
    callspec = getattr(item, "callspec", None)
    params = {} if callspec is None else callspec.params
    return params.get("subject") or params.get("document")
