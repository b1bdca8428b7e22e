"""Bulk data over HTTP, at a port of its own: who reads it needs no way to the admin port."""
