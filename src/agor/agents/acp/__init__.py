"""Agents that speak the Agent Client Protocol (ACP): any command, and the known ones on top of it.

The protocol's models and its requests are those of the official package, which takes half a second
to import; so nothing here imports it before the first turn.
"""
