"""Who may do what, and how much: rules, credentials, quotas, what clients may make us keep.

Kept in the catalog, asked by `api/` and told to the data plane by `topics/`. No sockets in here.
"""
