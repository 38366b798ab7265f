"""SQLite: one file, one writing thread, a few reading ones, one that empties the log."""
