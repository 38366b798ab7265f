"""What the daemon and the executor share: pure data, no I/O.

`envelope` is JSON-RPC itself, `validation` turns bytes into typed structures with errors that name
the field, `methods` lists every call between the two processes, `events` what a task reports.
"""
