"""What the broker's numbers were in the last 30 days, in a file of bounded size.

`levels` says how exactly which age is kept, `history_file` keeps it, and `history` collects what
belongs to one moment, and writes it once a minute. What is measured is decided by its caller.
"""
