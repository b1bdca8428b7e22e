"""What the broker answers, one module per API, by the API's key.

A module holds `KEY`, the `VERSIONS` that are advertised, and `handle(broker, request, call)`, sync
or async, from request to response. Its head comment is the API's place in `docs/protocol.md`: it
begins with name and versions, and a paragraph that begins with "Left out:" says what is missing.
Handlers know messages and the broker; sockets, threads and clocks are `dispatch`'s.
"""

from __future__ import annotations

from types import ModuleType

from appliance.handlers import (
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    api_versions,
    create_acls,
    create_delegation_token,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_delegation_token,
    describe_groups,
    describe_log_dirs,
    describe_quorum,
    describe_topic_partitions,
    describe_user_scram_credentials,
    elect_leaders,
    expire_delegation_token,
    fetch,
    find_coordinator,
    get_telemetry_subscriptions,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    push_telemetry,
    renew_delegation_token,
    sync_group,
    unregister_broker,
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
    describe_acls,
    create_acls,
    delete_acls,
    describe_configs,
    alter_configs,
    alter_replica_log_dirs,
    describe_log_dirs,
    create_partitions,
    create_delegation_token,
    renew_delegation_token,
    expire_delegation_token,
    describe_delegation_token,
    delete_groups,
    elect_leaders,
    incremental_alter_configs,
    alter_partition_reassignments,
    list_partition_reassignments,
    offset_delete,
    describe_client_quotas,
    alter_client_quotas,
    describe_user_scram_credentials,
    alter_user_scram_credentials,
    describe_quorum,
    update_features,
    describe_cluster,
    unregister_broker,
    get_telemetry_subscriptions,
    push_telemetry,
    list_config_resources,
    describe_topic_partitions,
)

HANDLERS: dict[int, ModuleType] = {module.KEY: module for module in _MODULES}

# What ApiVersions lists. Where IS_LISTED is False only those are answered who ask unbidden.
SERVED: dict[int, tuple[int, int]] = {
    key: each.VERSIONS for key, each in HANDLERS.items() if getattr(each, "IS_LISTED", True)
}
