"""Transactions: several partitions and the offsets of groups change together, or not at all.

states             the state machine of a transactional id, as tables
transaction        one transactional id: what may follow, and what it becomes; no clock, no I/O
transaction_log    the records of `__transaction_state`, out and back in
transaction_table  all transactional ids, in memory and on disk
markers            the control batches that end a transaction in its partitions
decided_ends       the end of a transaction, step by step
led_markers        markers that are written here, in a cluster
markers_at_leaders where they are written in a cluster
first_writes       of a transaction, in a cluster: whoever leads the partition asks the coordinator
timeouts           silent transactions are aborted, ids that nobody uses forgotten
adoption           what logs have open, and whose it is
coordinator        the owner of all transactional ids: order, time, and what handlers ask

docs/decisions/transactions.md says in which order things are written, and why.
"""
