"""Access: rules, credentials, quotas, and limits on what clients make the broker keep.

The catalog stores them, `api/` asks them, `topics/` passes them to the data plane. No sockets here.
"""
