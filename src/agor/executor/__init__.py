"""The process inside the environment: serves the daemon, runs agents, loses nothing.

`main` is the command, `server` answers the wire, `prompts` runs tasks, `delivery` brings their
events to the daemon, and `outbox` keeps them until the daemon has them safe.
"""
