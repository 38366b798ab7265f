"""What tests of agor and of things built for it need. Shipped; only `agor model-server` uses it."""
