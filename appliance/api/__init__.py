"""Kafka's APIs as far as the data plane does not answer them: one handler per API, in `handlers/`.

`dispatch` is the way from a request that was passed on to its answer. Rules are in the rooms below,
no state lives here.
"""
