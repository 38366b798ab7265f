"""OpenCode, over ACP (`opencode acp`).

ACP goes over the program's own streams, which nobody else can reach. Behind it, OpenCode also opens
a port on this machine, as `opencode serve` would; with it comes a password that only the program
has, so that no other user of the machine can do anything there.
"""
