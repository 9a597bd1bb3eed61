"""The HTTP API: one table of routes over the broker's operations.  docs/http.md describes it.

Imported only if the listener is on, because its framework takes longer to load than the rest of a server.
"""
