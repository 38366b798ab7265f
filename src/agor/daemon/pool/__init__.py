"""The pool of executors: starts them, bounds what they use, takes them back, ends them."""
