"""The two halves of a round as pure functions: the work of a block of clients, and the work of
the server.
"""
