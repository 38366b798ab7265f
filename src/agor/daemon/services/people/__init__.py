"""People: who there is, how they come in, what they share, and what ends when they go."""
