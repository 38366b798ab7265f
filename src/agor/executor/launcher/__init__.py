"""The launcher: one process per Unix identity that forks executors, signals and reaps their trees.

    daemon ── launcher ── keeper ── executor ── agent ── tools

A keeper is the init of one executor: all that escapes from the executor's tree comes back to it, so
it can end everything and say how it ended, whether or not the launcher still lives.
"""
