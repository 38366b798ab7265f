"""What the JSON-RPC layer promises, shown over every way in."""
