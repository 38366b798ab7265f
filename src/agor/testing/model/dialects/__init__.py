"""The model APIs that the server speaks, one module each: how to read a call, how to answer it."""
