"""The agent `codex`: OpenAI's Codex, driven through its `app-server`."""
