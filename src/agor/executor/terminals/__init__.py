"""Shells on real terminals, served over the wire.

`desk` answers the calls, `terminal` is one of them, `output` numbers and keeps what it printed,
`keys` brings in what is typed, `shell` starts and ends the program on a `pty`, as `becoming` makes
it the owner of its terminal, and `choice` says which program that is and what it gets to see.
"""
