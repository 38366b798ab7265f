"""The control plane: owns the database, the keys and who may do what; runs agents in executors."""
