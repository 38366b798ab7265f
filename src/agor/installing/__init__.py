"""How agents' programs get onto this machine, and what of them is there."""
