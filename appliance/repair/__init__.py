"""Damage: the scrub detects it while the broker runs, and an operator repairs it.

This room opens no logs: it works on the open logs of `data_dir`, and adds entries to the ledger.
"""
