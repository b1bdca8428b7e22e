"""What the operating system gives: kernel calls, threads, descriptors, and the codes they answer
with.

Everything else stands on this room. Nothing in it knows what a record or a partition is, and all
that the core calls runs without the GIL.
"""
