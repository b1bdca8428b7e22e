"""Bulk reads: which offsets of which partitions, in which pieces, and reading them at a pace."""
