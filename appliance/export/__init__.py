"""Bulk export: which offsets of which partitions, in which pieces, and reading them at a pace."""
