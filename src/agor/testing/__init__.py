"""What tests of agor and of things built for it need. Shipped; `agor` itself never uses it."""
