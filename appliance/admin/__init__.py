"""The admin pages' parts: metrics, and the REST API. They ask the broker for snapshots."""
