"""The group `feed`: from executors through the store to the clients of the feed, and into HTTP."""
