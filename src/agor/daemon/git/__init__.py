"""Git, as somebody: everything that the daemon does with repositories goes through here."""
