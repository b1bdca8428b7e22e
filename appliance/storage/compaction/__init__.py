"""Compaction: of every key the last record stays.

`_cleaner` is its course: `_cleanable` says which segments, `_segment_reader` reads them into
`_offset_map`, `_survivors` decides, `_replacement` writes. Nothing of the storage below calls it.
"""
