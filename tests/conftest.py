"""Generated examples are the same in every run, so that a failure is about the change at hand.

`pytest --hypothesis-profile=explore` looks for new ones.
"""

import pytest
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.register_profile("explore", max_examples=5000, deadline=None)
settings.load_profile("repeatable")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a file together, and all of those that make Unix users: see the Makefile.

    What a file sets up once is then set up once, also with several processes.
    """
    for item in items:
        together = "impersonation" if "impersonation" in item.path.parts else str(item.path)
        item.add_marker(pytest.mark.xdist_group(together))
