"""A model of replication, which the broker does not have yet: `docs/replication.md`."""
