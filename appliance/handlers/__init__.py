"""What the broker answers, one module per API, by the API's key.

A module holds `KEY`, the `VERSIONS` that are advertised, and `handle(broker, request, call)`, sync
or async, from request to response. Its head comment is the API's place in `docs/protocol.md`: it
begins with name and versions, and a paragraph that begins with "Left out:" says what is missing.
Handlers know messages and the broker; sockets, threads and clocks are `dispatch`'s.
"""

from __future__ import annotations

from types import ModuleType

from appliance.handlers import (
    alter_configs,
    api_versions,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_quorum,
    describe_topic_partitions,
    elect_leaders,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
    update_features,
)

_MODULES = (
    produce,
    fetch,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    find_coordinator,
    join_group,
    heartbeat,
    leave_group,
    sync_group,
    describe_groups,
    list_groups,
    api_versions,
    create_topics,
    delete_topics,
    delete_records,
    init_producer_id,
    offset_for_leader_epoch,
    describe_configs,
    alter_configs,
    describe_log_dirs,
    create_partitions,
    delete_groups,
    elect_leaders,
    incremental_alter_configs,
    list_partition_reassignments,
    offset_delete,
    describe_quorum,
    update_features,
    describe_cluster,
    describe_topic_partitions,
)

HANDLERS: dict[int, ModuleType] = {module.KEY: module for module in _MODULES}

SERVED: dict[int, tuple[int, int]] = {key: each.VERSIONS for key, each in HANDLERS.items()}
