"""The group `wire`: JSON-RPC over a Unix socket, one JSON object a line."""
