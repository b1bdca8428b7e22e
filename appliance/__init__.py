"""A message log for one box. Start reading at ARCHITECTURE.md."""

__version__ = "0.1.0"  # a client tells it to its brokers
