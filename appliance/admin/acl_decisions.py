"""Who may do what over REST: all of a principal by which rule, and one request tried dry."""

from __future__ import annotations

from typing import TypedDict

from appliance.access.acls import CLUSTER_NAME, Operation, ResourceType
from appliance.access.principal import Principal
from appliance.admin.acls import Row, operation_of, row_of
from appliance.admin.rights import CLUSTER
from appliance.admin.route import Call, Param, get
from appliance.errors import RequestInvalid

PRINCIPAL = Param("principal", str, "Whom it is about, as User:NAME.")
HOST = Param("host", str, "Address of the client; without it, rules of all addresses.")


class Explained(TypedDict):
    principal: str
    is_enforced: bool
    may_do_everything: str | None  # why; null: it may do what rules say
    allow: list[Row]
    deny: list[Row]  # they win


class Decided(TypedDict):
    principal: str
    is_allowed: bool
    why: str
    rule: Row | None  # that decided


def principal_of(call: Call) -> Principal:
    text = call.params["principal"] or ""
    try:
        return Principal.parse(text)
    except ValueError:
        raise RequestInvalid(f"principal: got {text[:80]!r}, wanted TYPE:NAME") from None


def asked_principal(call: Call) -> Principal:
    """One's own rights are no secret from oneself."""
    principal = principal_of(call)
    if principal != call.rights.principal:
        call.rights.check(Operation.DESCRIBE, CLUSTER, CLUSTER_NAME)
    return principal


def explain(call: Call) -> Explained:
    authorizer, principal = call.broker.authorizer, asked_principal(call)
    rows = [row_of(each) for each in authorizer.rules_of(principal, call.params["host"])]
    return {
        "principal": str(principal),
        "is_enforced": authorizer.is_enforced,
        "may_do_everything": authorizer.why_everything(principal),
        "allow": [each for each in rows if each["permission"] == "allow"],
        "deny": [each for each in rows if each["permission"] == "deny"],
    }


def try_dry(call: Call) -> Decided:
    principal, params = asked_principal(call), call.params
    operation = Operation(operation_of(params["operation"] or ""))
    if operation is Operation.ALL:
        raise RequestInvalid("operation: got 'all', wanted one that a request asks for")
    resource_type = ResourceType[params["resource_type"].upper()]
    name = CLUSTER_NAME if resource_type is ResourceType.CLUSTER else params["resource_name"]
    if not name:
        raise RequestInvalid("resource_name: got nothing, wanted the name of the resource")
    found = call.broker.authorizer.decide(
        principal, params["host"] or "", operation, resource_type, name
    )
    return {
        "principal": str(principal),
        "is_allowed": found.is_allowed,
        "why": found.why,
        "rule": row_of(found.acl) if found.acl else None,
    }


ROUTES = [
    get(
        "/acls/explain",
        explain,
        Explained,
        "All that a principal may do, and by which rules.",
        params=(PRINCIPAL, HOST),
        rights=(),
        asks="DESCRIBE cluster, unless it is about oneself",
    ),
    get(
        "/acls/try",
        try_dry,
        Decided,
        "Whether one request would be allowed, and which rule decides.",
        params=(
            PRINCIPAL,
            HOST,
            Param("operation", str, "read, write, describe, ..."),
            Param(
                "resource_type",
                str,
                "The kind of resource.",
                default="topic",
                choices=tuple(each.name.lower() for each in ResourceType),
            ),
            Param("resource_name", str, "Its name; not needed for the cluster."),
        ),
        rights=(),
        asks="DESCRIBE cluster, unless it is about oneself",
    ),
]
