"""Decides who may do what: the one owner of rules, for Kafka's APIs and for the admin port."""

from __future__ import annotations

from appliance.access.acls import Operation, ResourceType
from appliance.access.principal import Principal


class Authorizer:
    def allows(
        self,
        principal: Principal,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        return True
