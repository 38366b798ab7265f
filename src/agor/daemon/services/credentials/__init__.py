"""Credentials: kept sealed, given to the agent that needs them, under a key that can change."""
