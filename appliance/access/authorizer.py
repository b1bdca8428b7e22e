"""Decides who may do what: the one owner of rules, for Kafka's APIs and for the admin port."""

from __future__ import annotations

from collections.abc import Collection

from appliance.access.acls import Operation, ResourceType
from appliance.access.principal import Principal


class Authorizer:
    def __init__(
        self,
        is_enforced: bool = False,
        super_users: Collection[str] = (),
        allows_everyone: bool = False,
    ) -> None:
        self.is_enforced = is_enforced

    def allows(
        self,
        principal: Principal,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        return True
