"""What the audit trail is told of requests: administrative acts, and refusals by rules.

An act has a row with its request, without what is secret, and with the errors of its answer. What
rules refuse is counted. Who asks for a list and is shown what it may see is refused nothing: a
refusal has an error that says so.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from appliance.access.audit import DETAILS_MAX, KAFKA_PORT, REFUSALS
from appliance.access.audit_rows import AuditRow
from appliance.api.handlers import (
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_share_group_offsets,
    alter_user_scram_credentials,
    create_acls,
    create_delegation_token,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_share_group_offsets,
    delete_topics,
    elect_leaders,
    expire_delegation_token,
    incremental_alter_configs,
    offset_delete,
    renew_delegation_token,
    unregister_broker,
    update_features,
    write_txn_markers,
)
from appliance.api.handlers.call import Call
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError
from appliance.protocol import API, ErrorCode
from appliance.protocol.types import (
    Array,
    Message,
    MessageType,
    is_struct,
    rows_of,
    struct_of,
)

ADMINISTRATIVE = frozenset(
    each.KEY
    for each in (
        alter_client_quotas, alter_configs, alter_partition_reassignments, alter_replica_log_dirs,
        alter_share_group_offsets, alter_user_scram_credentials, create_acls,
        create_delegation_token, create_partitions, create_topics, delete_acls, delete_groups,
        delete_records, delete_share_group_offsets, delete_topics, elect_leaders,
        expire_delegation_token, incremental_alter_configs, offset_delete, renew_delegation_token,
        unregister_broker, update_features, write_txn_markers,
    )
)  # fmt: skip

SECRET = re.compile(
    r"password|token|secret|credential|passphrase|salt|hmac|jaas|private|key$", re.IGNORECASE
)
ITEMS_MAX = 20  # of a list in a request
TEXT_MAX = 200  # characters of a name or value


class RequestAudit:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def failed(self, call: Call, error: ApplianceError) -> None:
        """A handler: whoever is refused mostly gets an error."""
        if call.denied or call.request is not None:
            self._note(call, Counter([error.kafka_code]))

    def answered(self, call: Call, answer: Any) -> None:
        self._note(call, Counter(error_codes(answer)))

    def _note(self, call: Call, codes: Counter[int]) -> None:
        api = API[call.header.api_key].name
        asking = self._broker.asking(call.connection, call.principal, call.peer)
        if not REFUSALS.isdisjoint(codes):
            self._broker.audit.refused(asking, api, call.denied or ())
        done = {code: count for code, count in codes.items() if code not in REFUSALS}
        if call.request is None or (codes and not done):
            return
        if getattr(call.request, "validate_only", False):
            return  # and did nothing
        status = next((code for code in done if code), 0)
        details = {"request": shown(call.request), "answers": words_of(codes)}
        row = AuditRow(
            0, call.now_ms, asking.who, asking.peer, f"{api} {names_of(call.request)}".strip(),
            json.dumps(details, ensure_ascii=False)[:DETAILS_MAX], status, KAFKA_PORT,
            asking.mechanism,
        )  # fmt: skip
        self._broker.audit.act(row, api)


def error_codes(message: Any) -> Iterator[int]:
    """All that an answer has, at any depth. That of the whole stands for nothing where it is 0 and
    there are others."""
    if isinstance(message, list):
        for each in message:
            yield from error_codes(each)
    elif isinstance(message, Message):
        for name in names_with_codes(type(message)):
            value = getattr(message, name)
            if name == "error_code":
                yield int(value)
            else:
                yield from error_codes(value)


@cache  # a thousand new topics are answered with thirty thousand configs, and none has a code
def names_with_codes(message: MessageType) -> list[str]:
    """The fields that are error codes, or have some in them."""
    found = []
    for each, row in rows_of(message):
        kind = row.kind.of if isinstance(row.kind, Array) else row.kind
        if each.name == "error_code" or (is_struct(kind) and names_with_codes(struct_of(kind))):
            found.append(each.name)
    return found


def words_of(codes: Counter[int]) -> dict[str, int]:
    return {ErrorCode(code).name: count for code, count in codes.items()}


def shown(value: Any) -> Any:
    """A message for people. Bytes are keys, salts and hashes; a config may be a password."""
    if isinstance(value, bytes):
        return "..."
    if isinstance(value, str):
        return value if len(value) <= TEXT_MAX else value[:TEXT_MAX] + "…"
    if isinstance(value, list):
        more = [f"and {len(value) - ITEMS_MAX} more"] if len(value) > ITEMS_MAX else []
        return [shown(each) for each in value[:ITEMS_MAX]] + more
    if not is_dataclass(value):
        return value if isinstance(value, (int, float, type(None))) else str(value)
    found = {each.name: getattr(value, each.name) for each in fields(value)}
    is_secret = SECRET.search(str(found.get("name", found.get("key", ""))))
    return {
        name: "..." if name == "value" and is_secret else shown(each)
        for name, each in found.items()
        if each not in ([], None, "")
    }


def names_of(request: Any) -> str:
    """The first thing that the request names, for the line in the trail."""
    for each in fields(request):
        value = getattr(request, each.name)
        first = value[0] if isinstance(value, list) and value else None
        if isinstance(first, str):
            return first[:TEXT_MAX]
        for name in ("name", "topic_name", "resource_name", "group_id"):
            if isinstance(found := getattr(first, name, None), str) and found:
                return found[:TEXT_MAX]
    return ""
