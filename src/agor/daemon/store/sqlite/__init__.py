"""SQLite: one file, a process that writes, and threads that read.

daemon:            store ─ line ─ scribe ══ frames, a socket ══╗      readers
process of its own:               writing ─ writer ─ transaction, checkpoints
"""
