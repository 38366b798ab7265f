"""Benchmarks: the product beside its limit and its peers, interleaved in one run.

`python -m bench` from the root of the repository runs all groups and prints, for each goal, one
line `BENCH <name> ours=<value> peer=<value> ratio=<r> goal=<g> ok|short`.
"""
