"""The two halves of a round as pure functions: what a block of clients does, and what the server makes of it."""
