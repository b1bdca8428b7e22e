"""Proves that a power cut, a kill or a failing disk loses no acknowledged record."""
