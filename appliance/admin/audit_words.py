"""Rows of the audit trail in words: what was asked for, in the imperative, for its outcome stands
beside it. What is not known here stays as it was noted."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from appliance.config.config_key import ConfigInvalid
from appliance.config.config_words import in_words, plain
from appliance.process.spoken import moment

# Of requests at the admin port. A name in braces is one of the path, or of the request.
ADMIN = {
    "POST /session/password": "Change the own password",
    "POST /setup": "Make the first user",
    "POST /login": "Log in to the console",
    "POST /users": "Make user {name}",
    "PATCH /users/{user}": "Change user {user}",
    "POST /users/{user}/confirmation": "Let user {user} log in to Kafka with the present password",
    "DELETE /users/{user}": "Delete user {user}",
    "DELETE /sessions/{session}": "End session {session}",
    "DELETE /users/{user}/sessions": "End all sessions of user {user}",
    "POST /tokens": "Make token {name}",
    "DELETE /tokens/{token}": "Delete token {token}",
    "POST /ledger/acknowledge": "Acknowledge losses",
    "POST /alerts/test": "Send a test alert",
    "POST /topics": "Make topic {name}",
    "PATCH /topics/{topic}": "Change topic {topic}",
    "DELETE /topics/{topic}": "Delete topic {topic}",
    "POST /topics/{topic}/empty": "Delete all records of topic {topic}",
    "POST /log-dirs/reopen": "Open a directory of records again",
    "POST /log-dirs/give-up": "Give up a directory of records",
    "GET /topics/{topic}/messages": "Read messages of topic {topic}",
    "GET /topics/{topic}/messages/live": "Follow messages of topic {topic}",
    "POST /topics/{topic}/messages": "Produce messages to topic {topic}",
    "POST /topics/{topic}/replay": "Copy messages of topic {topic}",
    "GET /topics/{topic}/export": "Download messages of topic {topic}",
    "GET /topics/{topic}/partitions/{partition}/batches":
        "Read messages of topic {topic} in bulk, partition {partition}",
    "PUT /topics/{topic}/schemas/{part}": "Set the schema of topic {topic}, its {part}",
    "DELETE /topics/{topic}/schemas/{part}": "Remove the schema of topic {topic}, its {part}",
    "POST /topics/{topic}/partitions/{partition}/repair": "Repair {topic}, partition {partition}",
    "PUT /exports/{export}": "Define export {export}",
    "DELETE /exports/{export}": "Delete export {export} and its history",
    "POST /exports/{export}/runs": "Report a run of export {export}",
    "GET /exports/{export}/runs/{run}/dead-letters": "Read dead letters of export {export}",
    "PUT /holds/{hold}": "Hold back retention for {hold}",
    "DELETE /holds/{hold}": "End the hold on retention of {hold}",
    "POST /backup/points": "Take a point in time for a backup",
    "DELETE /groups/{group}": "Delete group {group} with its offsets",
    "POST /groups/{group}/reset": "Reset offsets of group {group}",
    "PATCH /mirrors/{mirror}": "Pause or resume mirror {mirror}",
    "DELETE /mirrors/{mirror}": "Forget the report of mirror {mirror}",
    "POST /clock/confirm": "Confirm the machine's clock",
    "POST /doctor/measure": "Measure the disk",
    "POST /scrub": "Verify segments from the disk",
    "PATCH /settings": "Change settings",
    "POST /quotas": "Change quotas",
    "POST /acls": "Add access rules",
    "POST /acls/remove": "Remove access rules",
    "POST /acls/confirm": "Take over access rules from before they were enforced",
}  # fmt: skip

# Of requests at Kafka's port, in front of the first name that they have.
KAFKA = {
    "AlterClientQuotas": "Change quotas",
    "AlterConfigs": "Replace configs",
    "AlterPartitionReassignments": "Move partitions",
    "AlterReplicaLogDirs": "Move partitions to other directories",
    "AlterShareGroupOffsets": "Change offsets of a share group",
    "AlterUserScramCredentials": "Change credentials of users",
    "CreateAcls": "Add access rules",
    "CreateDelegationToken": "Make a delegation token",
    "CreatePartitions": "Add partitions",
    "CreateTopics": "Make topics",
    "DeleteAcls": "Remove access rules",
    "DeleteGroups": "Delete groups",
    "DeleteRecords": "Delete records",
    "DeleteShareGroupOffsets": "Delete offsets of a share group",
    "DeleteTopics": "Delete topics",
    "ElectLeaders": "Elect leaders",
    "ExpireDelegationToken": "End a delegation token",
    "IncrementalAlterConfigs": "Change configs",
    "OffsetDelete": "Delete offsets of a group",
    "RenewDelegationToken": "Renew a delegation token",
    "UnregisterBroker": "Unregister a broker",
    "UpdateFeatures": "Change features",
    "WriteTxnMarkers": "End transactions of others",
}

REQUEST = re.compile(r"([A-Z]+) /(?:api|export)/v1(/[^ ]*)")
NAMED = re.compile(r"\{(\w+)\}")
REFUSED = "refused "

# What is only tried unless the request says otherwise
TRIED_FIRST = (
    "Copy messages", "Repair", "Reset offsets", "Remove access rules", "Take over access rules",
)  # fmt: skip

FACTS_MAX = 5  # of a request, and of each list
TEXT_MAX = 60  # characters of a value
PLAIN = frozenset({"configs", "values", "entity"})  # what they are is in the sentence
GOOD = frozenset({"NONE", "200", "201", "204"})
EPOCH_MS = 10**12  # no duration
HIDDEN = frozenset({"dry_run", "password", "request"})  # which says nothing, or nothing more


def in_sentence(action: str, details: str) -> str:
    """"": there are no better words than those of the row."""
    if action.startswith(REFUSED):
        found = in_sentence(action.removeprefix(REFUSED), "")
        return f"Refused by access rules: {found or action.removeprefix(REFUSED)}"
    body = told(details)
    request = REQUEST.fullmatch(action)
    if request is None:
        api, _, name = action.partition(" ")
        text = f"{KAFKA[api]} {name}".strip() if api in KAFKA else ""
        used: set[str] = set()
    else:
        text, used = said(request[1], request[2], body)
    if text.startswith(TRIED_FIRST) and body and "more" not in body and body.get("dry_run", True):
        text += " (a dry run)"
    left = ", ".join(facts({name: each for name, each in body.items() if name not in used}))
    return f"{text}: {left}" if text and left else text


def told(details: str) -> Mapping[str, Any]:
    """Nothing of a request that was cut off."""
    try:
        found = json.loads(details) if details else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def said(method: str, path: str, body: Mapping[str, Any]) -> tuple[str, set[str]]:
    """The sentence, and what of the request is in it."""
    parts = path.split("/")[1:]
    for template, text in ADMIN.items():
        verb, *wanted = template.split("/")
        if verb == f"{method} " and len(wanted) == len(parts):
            pairs = [*zip(wanted, parts, strict=True)]
            if all(each == part or NAMED.fullmatch(each) for each, part in pairs):
                names = {each[1:-1]: part for each, part in pairs if NAMED.fullmatch(each)}
                return filled(text, {**body, **names})
    return "", set()


def filled(text: str, known: Mapping[str, Any]) -> tuple[str, set[str]]:
    names = NAMED.findall(text)
    for name in names:
        text = text.replace(f"{{{name}}}", shown(known.get(name, "…")))
    return text, {name for name in names if name in known}


def facts(body: Mapping[str, Any]) -> Iterator[str]:
    rows = [(name, each) for name, each in body.items() if says_something(name, each)]
    for name, each in rows[:FACTS_MAX]:
        if isinstance(each, dict):
            yield from assignments(name, each)
        elif isinstance(each, list):
            yield listed(name, each)
        else:
            yield f"{worded(name)} {quantity(name, each)}"
    if len(rows) > FACTS_MAX:
        yield "…"


def says_something(name: str, value: Any) -> bool:
    if value in (None, "", [], {}) or name in HIDDEN:
        return False
    return not (name == "answers" and isinstance(value, dict) and set(value) <= GOOD)


def listed(name: str, values: list[Any]) -> str:
    plain_ones = [shown(each) for each in values if not isinstance(each, (dict, list))]
    if not plain_ones:
        return f"{len(values)} {worded(name)}"
    more = ", …" if len(plain_ones) > FACTS_MAX else ""
    return f"{worded(name)} {', '.join(plain_ones[:FACTS_MAX])}{more}"


def assignments(of: str, values: Mapping[str, Any]) -> Iterator[str]:
    """Of configs, mostly: with their values in words."""
    first = "" if of in PLAIN else f"{worded(of)} "
    for name, each in [*values.items()][:FACTS_MAX]:
        value = config(name, each) if isinstance(each, str) else shown(each)
        yield f"{first}{shown(name)} = {value}"
    if len(values) > FACTS_MAX:
        yield "…"


def quantity(name: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        return shown(value)
    if name.endswith("_ms") and value > EPOCH_MS:
        return moment(value)
    return in_words(name.replace("_", "."), str(value)) or shown(value)


def config(name: str, text: str) -> str:
    try:
        return in_words(name, plain(name, text)) or shown(text)
    except ConfigInvalid:
        return shown(text)


def worded(name: str) -> str:
    return shown(name).replace("_", " ")


def shown(value: Any) -> str:
    if value is None:
        return "the default"
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = "…" if NAMED.fullmatch(str(value)) else str(value)
    return text if len(text) <= TEXT_MAX else text[:TEXT_MAX] + "…"
