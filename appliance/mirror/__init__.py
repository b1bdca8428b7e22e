"""The mirror: a consumer of one cluster and a producer for another in one process.

    Mirror (mirror.py)       runs rounds until it is stopped, with pauses between them
        Site (site.py)       one cluster: leaders, and short requests
        topics.py            creates in the target what the source has: topics, partitions, configs
        Fetcher (fetcher.py) a thread per source broker; its batches wait in the Inbox (inbox.py)
        KeptTarget           an appliance: the same offsets
        MappedTarget         any other cluster: its own offsets, and a map (offset_map.py)
        GroupOffsets         committed offsets of groups, if the target keeps offsets
    MirrorProgress           progress (progress.py), for the line, the JSON and the metrics

docs/decisions/mirror.md has the reasons.
"""
