"""The daemon's use cases. They know no HTTP and no sockets."""
