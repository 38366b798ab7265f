"""Terminals: shells that people open in their sessions' workspaces."""
