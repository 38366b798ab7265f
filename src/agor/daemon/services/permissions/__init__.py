"""Permission requests: the questions, and their answers."""
