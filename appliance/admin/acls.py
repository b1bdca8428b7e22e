"""Access rules of Kafka clients over REST: list, add, remove, and confirm those that wait."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

from typing_extensions import NotRequired

from appliance.access.acls import (
    ANY,
    EVERY,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from appliance.admin.body_schema import Limits
from appliance.admin.login import attended
from appliance.admin.rights import ALTER_CLUSTER, DESCRIBE_CLUSTER
from appliance.admin.route import ADMIN, Call, get, post
from appliance.errors import RequestInvalid

Resource = Literal["topic", "group", "cluster", "transactional_id", "delegation_token", "user"]
Pattern = Literal["literal", "prefixed"]
Permission = Literal["allow", "deny"]
ADDED_MAX = 1000  # per request

WARNING = (
    "These rules are stored and not enforced: no listener has a login, and authorizer.class.name "
    "is not set, so every client may do everything."
)
WAITING = (
    "Rules from before they were enforced decide nothing until an administrator confirms them "
    "(appliance acl confirm), since anybody could write them."
)


class Row(TypedDict):
    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str


class AclList(TypedDict):
    is_enforced: bool
    enforced_since_ms: int | None  # the first time
    warning: str | None
    acls: list[Row]
    waiting: list[Row]  # to be confirmed


class NewAcl(TypedDict):
    resource_type: Resource
    resource_name: str
    pattern_type: NotRequired[Pattern]  # default: literal
    principal: str  # User:NAME
    host: NotRequired[str]  # *
    operation: str
    permission: NotRequired[Permission]  # default: allow


class NewAcls(TypedDict):
    acls: Annotated[list[NewAcl], Limits(0, ADDED_MAX)]


class Removal(TypedDict):
    """A filter for rules to remove; a missing field matches every rule."""

    resource_type: NotRequired[Resource]
    resource_name: NotRequired[str]
    pattern_type: NotRequired[Pattern]
    principal: NotRequired[str]
    host: NotRequired[str]
    operation: NotRequired[str]
    permission: NotRequired[Permission]
    dry_run: NotRequired[bool]  # default: true


class Confirmation(Removal):
    """A filter for rules that wait; a missing field matches every one."""

    drop: NotRequired[bool]  # instead of taking them over; default: false


class Confirmed(TypedDict):
    dry_run: bool
    dropped: bool
    acls: list[Row]


class Removed(TypedDict):
    dry_run: bool
    acls: list[Row]


def row_of(acl: Acl) -> Row:
    return {
        "resource_type": ResourceType(acl.resource_type).name.lower(),
        "resource_name": acl.resource_name,
        "pattern_type": PatternType(acl.pattern_type).name.lower(),
        "principal": acl.principal,
        "host": acl.host,
        "operation": Operation(acl.operation).name.lower(),
        "permission": PermissionType(acl.permission_type).name.lower(),
    }


def operation_of(text: str) -> int:
    try:
        return Operation[text.upper()]
    except KeyError:
        names = ", ".join(each.name.lower() for each in Operation)
        raise RequestInvalid(f"operation: got {text[:60]!r}, wanted one of {names}") from None


def listed(call: Call) -> AclList:
    broker, waiting = call.broker, call.broker.acls.waiting()
    warning = WAITING if waiting else None
    return {
        "is_enforced": broker.authorizer.is_enforced,
        "enforced_since_ms": broker.acls_enforced_since_ms,
        "warning": warning if broker.authorizer.is_enforced else WARNING,
        "acls": [row_of(each) for each in broker.acls.find(EVERY)],
        "waiting": [row_of(each) for each in waiting],
    }


async def add(call: Call) -> AclList:
    """All of them, or none."""
    acls = [
        Acl(
            ResourceType[each["resource_type"].upper()],
            each["resource_name"],
            PatternType[each.get("pattern_type", "literal").upper()],
            each["principal"],
            each.get("host", "*"),
            operation_of(each["operation"]),
            PermissionType[each.get("permission", "allow").upper()],
        )
        for each in call.body["acls"]
    ]
    for acl in acls:
        acl.check()
    for error in await call.broker.acls.create(acls):
        if error is not None:
            raise error
    return listed(call)


def filter_of(body: dict[str, Any]) -> AclFilter:
    return AclFilter(
        ResourceType[body["resource_type"].upper()] if "resource_type" in body else ANY,
        body.get("resource_name"),
        PatternType[body["pattern_type"].upper()] if "pattern_type" in body else ANY,
        body.get("principal"),
        body.get("host"),
        operation_of(body["operation"]) if "operation" in body else ANY,
        PermissionType[body["permission"].upper()] if "permission" in body else ANY,
    )


async def confirm(call: Call) -> Confirmed:
    wanted, acls = filter_of(call.body), call.broker.acls
    is_dry, is_dropped = call.body.get("dry_run", True), call.body.get("drop", False)
    if not is_dry and not acls.is_enforced:
        attended(call)  # whoever may write rules could have them count later
    if is_dry:
        found = acls.waiting(wanted)
    else:
        found = await (acls.drop(wanted) if is_dropped else acls.confirm(wanted))
    return {"dry_run": is_dry, "dropped": is_dropped, "acls": [row_of(each) for each in found]}


async def remove(call: Call) -> Removed:
    wanted = filter_of(call.body)
    is_dry = call.body.get("dry_run", True)
    if is_dry:
        found = call.broker.acls.find(wanted)
    else:
        (result,) = await call.broker.acls.delete([wanted])
        if not isinstance(result, list):
            raise result
        found = result
    return {"dry_run": is_dry, "acls": [row_of(each) for each in sorted(found)]}


ROUTES = [
    get(
        "/acls",
        listed,
        AclList,
        "Access rules of Kafka clients, and those that wait to be confirmed.",
        rights=(DESCRIBE_CLUSTER,),
    ),
    post(
        "/acls",
        add,
        AclList,
        "Add access rules.",
        body=NewAcls,
        role=ADMIN,
        status=201,
        rights=(ALTER_CLUSTER,),
    ),
    post(
        "/acls/remove",
        remove,
        Removed,
        "Remove the matching access rules; a dry run unless dry_run is false.",
        body=Removal,
        role=ADMIN,
        rights=(ALTER_CLUSTER,),
    ),
    post(
        "/acls/confirm",
        confirm,
        Confirmed,
        "Take over, or drop, rules from before they were enforced; a dry run unless dry_run is "
        "false.",
        body=Confirmation,
        role=ADMIN,
        rights=(ALTER_CLUSTER,),
    ),
]
