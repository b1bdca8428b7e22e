"""Damage: looked for while the broker runs (`scrub`), and mended by an operator (`repair`).

Opens nothing itself: it works on logs that `data_dir` has open, and tells the ledger.
"""
