"""The admin port: metrics, and the REST API. They get snapshots from the broker."""
