"""`appliance acl import`: rules from an Apache Kafka, and which of its users need a password here.

Kafka gives nobody the credentials of its users, not even as hashes. So users are only named.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import click

from appliance.access.acls import ANY, Acl, Operation, PatternType, PermissionType, ResourceType
from appliance.cli.remote.acl import HEADS, table_of, warn
from appliance.cli.remote.api import Api, asks_a_broker, sure
from appliance.cli.remote.output import put_json, table
from appliance.cli.remote.topic import YES
from appliance.client.broker_partition import NO_BROKER
from appliance.client.cluster import Cluster
from appliance.client.config import ClientConfig
from appliance.client.security_config import SecurityConfig, of_pairs
from appliance.errors import ApplianceError
from appliance.process.exit_codes import FAILED, Command, Failed
from appliance.process.spoken import some
from appliance.protocol import Api as KafkaApi
from appliance.protocol import ErrorCode
from appliance.protocol.messages.describe_acls import API as DESCRIBE_ACLS
from appliance.protocol.messages.describe_acls import DescribeAclsRequest
from appliance.protocol.messages.describe_user_scram_credentials import API as DESCRIBE_USERS
from appliance.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)

ADDED_MAX = 500  # rules in a request; the broker takes 1000
MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
Row = dict[str, Any]


@dataclass(frozen=True)
class Found:
    """In Kafka."""

    rules: list[Row]
    not_taken: list[Row]  # with a reason
    mechanisms: dict[str, list[str]]  # by user


@click.command(cls=Command)
@click.option("--from", "source", required=True, metavar="HOST:PORT[,...]", help="The Kafka.")
@click.option(
    "--set",
    "pairs",
    multiple=True,
    metavar="KEY=VALUE",
    help="Login and TLS at the Kafka, as in security.protocol=SASL_SSL; see docs/client.md.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be added.")
@YES
@asks_a_broker
def import_acls(
    api: Api,
    as_json: bool,
    source: str,
    pairs: tuple[str, ...],
    dry_run: bool,
    is_sure: bool,
) -> None:
    """Add the rules of an Apache Kafka to this broker, and name its users.

    Passwords cannot be read out of Kafka, so each of its users needs a new one here. Rules that
    are here already stay."""
    found = read(source, of_pairs(pairs, "--set "))
    here = api.get("/acls")["acls"]
    new = [each for each in found.rules if each not in here]
    known = {each["name"] for each in api.get("/users")["users"]}
    report = {
        "dry_run": dry_run,
        "added": new,
        "here_already": len(found.rules) - len(new),
        "not_taken": found.not_taken,
        "users": [
            {"name": name, "mechanisms": sorted(mechanisms), "is_here": name in known}
            for name, mechanisms in sorted(found.mechanisms.items())
        ],
        "other_principals": others(found),
    }
    if not as_json:
        click.echo("\n".join(lines(report)))
    if new and not dry_run:
        sure(f"Add {some(len(new), 'rule')}?", is_sure)
        for i in range(0, len(new), ADDED_MAX):
            answer = api.post("/acls", {"acls": new[i : i + ADDED_MAX]})
        if not as_json:
            click.echo(f"added {some(len(new), 'rule')}")
            warn(answer)
    if as_json:
        put_json(report)


def read(source: str, security: SecurityConfig) -> Found:
    config = ClientConfig.secured(security, broker_list=source, client_id="appliance-acl-import")
    with Cluster(config) as kafka:
        try:
            rules = list(rules_of(kafka))
            mechanisms = mechanisms_of(kafka)
        except ApplianceError as error:
            raise Failed(f"{source}: {error}", FAILED) from error
    taken = [row_of(each) for each in rules if not fault(each)]
    refused = [{**row_of(each), "reason": fault(each)} for each in rules if fault(each)]
    return Found(taken, refused, mechanisms)


def ask(kafka: Cluster, api: KafkaApi, request: Any) -> Any:
    return kafka.ask(kafka.any_of(NO_BROKER), api, request)


def rules_of(kafka: Cluster) -> Iterator[Acl]:
    request = DescribeAclsRequest(ANY, None, ANY, None, None, ANY, ANY)
    answer = ask(kafka, DESCRIBE_ACLS, request)
    if answer.error_code == ErrorCode.SECURITY_DISABLED:
        return  # it has no authorizer, so it has no rules
    must(answer, "rules (DescribeAcls)")
    for resource in answer.resources:
        for each in resource.acls:
            yield Acl(
                resource.resource_type,
                resource.resource_name,
                resource.pattern_type,
                each.principal,
                each.host,
                each.operation,
                each.permission_type,
            )


def mechanisms_of(kafka: Cluster) -> dict[str, list[str]]:
    # everybody's; with null in place of the empty list a Kafka that refuses it gives no answer
    answer = ask(kafka, DESCRIBE_USERS, DescribeUserScramCredentialsRequest([]))
    must(answer, "users (DescribeUserScramCredentials)")
    return {
        each.user: [MECHANISMS.get(info.mechanism, "?") for info in each.credential_infos]
        for each in answer.results
    }


def must(answer: Any, what: str) -> None:
    if answer.error_code:
        name = ErrorCode(answer.error_code).name
        raise Failed(f"Kafka does not tell its {what}: {name} {answer.error_message or ''}", FAILED)


def fault(rule: Acl) -> str:
    """Why this broker cannot have the rule."""
    try:
        rule.check()
    except ApplianceError as error:
        return str(error)
    return ""


def row_of(rule: Acl) -> Row:
    """As the REST API has it. A number that is unknown here stays a number."""
    return {
        "resource_type": name_of(ResourceType, rule.resource_type),
        "resource_name": rule.resource_name,
        "pattern_type": name_of(PatternType, rule.pattern_type),
        "principal": rule.principal,
        "host": rule.host,
        "operation": name_of(Operation, rule.operation),
        "permission": name_of(PermissionType, rule.permission_type),
    }


def name_of(names: Any, number: int) -> str:
    return names(number).name.lower() if number in set(names) else str(number)


def others(found: Found) -> list[str]:
    """Principals of rules that have no SCRAM credential: they log in by other means."""
    scram = {f"User:{name}" for name in found.mechanisms}
    return sorted({each["principal"] for each in found.rules} - scram - {"User:*"})


def lines(report: Row) -> Iterator[str]:
    if report["added"]:
        yield table_of(report["added"])
    yield (
        f"{some(len(report['added']), 'rule')} to add, {report['here_already']} here already, "
        f"{len(report['not_taken'])} that this broker cannot have"
    )
    if report["not_taken"]:
        yield table(
            (*HEADS, "reason"),
            [
                (each["principal"], each["permission"], each["operation"], each["resource_type"],
                 each["resource_name"], each["pattern_type"], each["host"], each["reason"])
                for each in report["not_taken"]
            ],
        )  # fmt: skip
    new = [each["name"] for each in report["users"] if not each["is_here"]]
    if new:
        yield (
            "these users need a new password here, because Kafka gives none away "
            f"(appliance user create NAME): {', '.join(new)}"
        )
    if report["other_principals"]:
        yield (
            "these principals have rules and no SCRAM credential, so they log in otherwise: "
            f"{', '.join(report['other_principals'])}"
        )
