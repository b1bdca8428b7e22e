"""Transactions: several partitions and the offsets of groups change together, or not at all.

states           the state machine of a transactional id, as tables
transaction      one transactional id: what may follow, and what it becomes; no clock, no I/O
transaction_log  the records of `__transaction_state`, out and back in
markers          the control batches that end a transaction in its partitions
coordinator      the owner of all transactional ids: order, disk, time, and what handlers ask

docs/decisions/transactions.md says in which order things are written, and why.
"""
