"""The mirror: a consumer of one cluster and a producer for another in one process.

    Mirror (mirror.py)       rounds, one after the other, until it is stopped; pauses between
        Site (site.py)       one cluster: who leads what, short questions
        topics.py            what the target lacks: topics, partitions, configs
        Fetcher (fetcher.py) a thread a source broker; its batches wait in the Inbox (inbox.py)
        KeptTarget           an appliance: the same offsets
        MappedTarget         any other: its own offsets, and the map (offset_map.py)
        GroupOffsets         what groups have committed, where offsets are kept
    MirrorProgress           how far it is (progress.py), for the line, the JSON and the metrics

Why it is so: docs/decisions/mirror.md.
"""
