"""The daemon's HTTP and WebSocket interface, over real sockets and in front of a real daemon."""
