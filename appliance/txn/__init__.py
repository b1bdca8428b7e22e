"""Transactions: several partitions and the offsets of groups change together, or not at all.

states             the state machine of a transactional id, as tables
transaction        one transactional id: what may follow, and what it becomes; no clock, no I/O
transaction_log    the records of `__transaction_state`, out and back in
transaction_table  all transactional ids, in memory and on disk
markers            the control batches that end a transaction in its partitions
decided_ends       the end of a transaction, step by step
timeouts           silent transactions are aborted, ids that nobody uses forgotten
adoption           what logs have open, and whose it is
coordinator        the owner of all transactional ids: order, time, and what handlers ask

docs/decisions/transactions.md says in which order things are written, and why.
"""
