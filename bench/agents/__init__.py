"""The group `agents`: a prompt through the daemon, beside the same agent driven directly."""
