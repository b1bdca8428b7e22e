"""The client library: producers and consumers as the original design describes them.

Nothing of the broker is imported here but the wire protocol and the compiled codecs.
"""
