"""The owner of control state, on one asyncio thread, and what is true of it: `health` decides.

It holds topics, groups, transactions and share groups together; `api/` and `admin/` ask it.
"""
