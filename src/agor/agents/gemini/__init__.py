"""Gemini CLI, driven over ACP: how it is started, what it leaves out, where its records are."""
