"""Backups: a running broker's data at one point in time, kept in a directory or an object store,
checked there, and made a data directory again. A client of the broker, at its ports of HTTP."""
