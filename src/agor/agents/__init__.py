"""The agents, one module each, run inside the executor. `base` is what they all have in common."""
