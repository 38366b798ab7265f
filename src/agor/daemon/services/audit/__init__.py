"""The audit log: what is written into it, how it is read, and how it is verified."""
