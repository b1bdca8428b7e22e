"""A follower's side of replication: what it fetches from its leaders.

The leaders' side is in `network/_fetch_replica.pyx`. Enters: `broker` and what stands above it.
Sees `storage`, no topic of the catalog and no request of a client.
"""
