"""A message log for one box. Start reading at ARCHITECTURE.md."""
