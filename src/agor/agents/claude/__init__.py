"""The agent `claude-code`: Claude Code, driven by claude-agent-sdk.

Only `agent`, `installed` and `transcripts` are imported with the executor; the others need the SDK,
which is large and not everywhere.
"""
