"""Generated examples are the same in every run, so that a failure is about the change at hand.

`pytest --hypothesis-profile=explore` looks for new ones.
"""

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.register_profile("explore", max_examples=5000, deadline=None)
settings.load_profile("repeatable")
