"""Schemas of records, and a registry that has them: bytes from anybody become JSON."""
