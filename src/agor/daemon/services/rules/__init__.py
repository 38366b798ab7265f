"""Permission rules: answers that people gave in advance."""
