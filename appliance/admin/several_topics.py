"""Several topics in one request: delete them, or change configs of all. Each has its own result.

A request is a dry run unless `dry_run` is false: it checks what it would do, as far as that can be
known before, and tells what would go. One topic that is refused stops no other. In the audit trail
each topic has its own row, in the words of the requests for one topic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from http import HTTPStatus
from typing import Annotated, Literal, TypedDict

from typing_extensions import NotRequired

from appliance.access.acls import Operation
from appliance.access.audit import REFUSALS
from appliance.admin.audit import details_of
from appliance.admin.body_schema import Limits
from appliance.admin.config_rows import plain_texts
from appliance.admin.rights import (
    ALTER_CONFIGS_SOME_TOPIC,
    DELETE_SOME_TOPIC,
    GROUP,
    TOPIC,
)
from appliance.admin.route import ADMIN, OPERATOR, PREFIX, Call, post
from appliance.broker.broker import Broker
from appliance.config import topic_config
from appliance.config.config_key import ConfigChange, changes_to, text_of
from appliance.config.config_words import in_words
from appliance.errors import ApplianceError
from appliance.process.spoken import size, some
from appliance.storage._log_metrics import log_facts
from appliance.topics.topic import Topic, TopicDeletionDisabled, TopicUnknown, check_own

TOPICS_MAX = 100  # in one request, which takes as long as all of them
GROUPS_SHOWN = 3
NAME_MAX = 249  # longer ones are no topics
DONE = {"DELETE": HTTPStatus.NO_CONTENT, "PATCH": HTTPStatus.OK}

Names = Annotated[list[str], Limits(1, TOPICS_MAX)]
Outcome = Literal[
    "deleted", "changed", "would be deleted", "would be changed", "unchanged", "refused"
]


class TopicsDeletion(TypedDict):
    topics: Names
    dry_run: NotRequired[bool]  # true


class TopicsChange(TypedDict):
    topics: Names
    configs: dict[str, str | None]  # None: restores the broker's default
    dry_run: NotRequired[bool]  # true


class ConfigShift(TypedDict):
    name: str
    before: str
    after: str
    before_words: str
    after_words: str


class TopicResult(TypedDict):
    topic: str
    outcome: Outcome
    text: str  # what goes, or why it is refused
    changes: list[ConfigShift]


class TopicResults(TypedDict):
    dry_run: bool
    results: list[TopicResult]  # in the order of the request, each topic once


One = Callable[[str, bool], Awaitable[TopicResult]]


async def each_of(call: Call, method: str, one: One) -> TopicResults:
    is_dry = call.body.get("dry_run", True)
    results = []
    for name in dict.fromkeys(call.body["topics"]):
        try:
            found, refused = await one(name, is_dry), None
        except ApplianceError as error:
            found, refused = result_of(name, "refused", str(error)), error
        results.append(found)
        if not is_dry:
            note(call, method, name[:NAME_MAX], refused)
        await asyncio.sleep(0)
    if not is_dry:
        call.survey.forget()
        await call.trail.settled()
    return {"dry_run": is_dry, "results": results}


def note(call: Call, method: str, name: str, refused: ApplianceError | None) -> None:
    """As if it had been asked for alone."""
    path, kind = f"{PREFIX}/topics/{name}", f"{method} {PREFIX}/topics/{{topic}}"
    if refused is not None and refused.kafka_code in REFUSALS:
        return call.trail.refused(call.identity, call.request.remote or "", call.route, path)
    details = details_of({"configs": call.body["configs"]}) if "configs" in call.body else ""
    status = HTTPStatus.BAD_REQUEST if refused else DONE[method]
    is_rare = method == "DELETE"
    call.trail.act(call, f"{method} {path}", details, int(status), kind=kind, is_rare=is_rare)


def result_of(
    name: str, outcome: Outcome, text: str, changes: list[ConfigShift] | None = None
) -> TopicResult:
    return {"topic": name, "outcome": outcome, "text": text, "changes": changes or []}


def seen(call: Call, operation: Operation, name: str) -> Topic:
    """Who may not describe a topic does not learn that it is there."""
    if name not in call.described_topics():
        raise TopicUnknown(f"there is no topic {name[:NAME_MAX]!r}")
    call.rights.check(operation, TOPIC, name)
    topic = call.broker.topics.named(name)
    check_own(name)
    return topic


# Delete


async def delete_topics(call: Call) -> TopicResults:
    groups = groups_by_topic(call)

    async def one(name: str, is_dry: bool) -> TopicResult:
        topic = seen(call, Operation.DELETE, name)
        if not call.broker.topics.limits.may_delete:
            raise TopicDeletionDisabled(f"{name}: delete.topic.enable is false")
        text = held(topic, groups.get(name, ()))
        del topic  # its logs are not to stay in memory
        if is_dry:
            return result_of(name, "would be deleted", text)
        await call.broker.topics.delete(name)
        return result_of(name, "deleted", text)

    return await each_of(call, "DELETE", one)


def held(topic: Topic, groups: Collection[str]) -> str:
    """What goes with it."""
    facts = log_facts(topic.open_logs)
    records = sum(each.log_end_offset - each.log_start_offset for each in facts)
    text = f"{some(records, 'record')}, {size(sum(each.size for each in facts))}"
    if topic.here is not None and len(topic.here) < len(topic.logs):
        text += f" of the {len(topic.here)} of {some(len(topic.logs), 'partition')} that are here"
    if groups:
        shown = ", ".join(sorted(groups)[:GROUPS_SHOWN])
        more = len(groups) - GROUPS_SHOWN
        text += f"; offsets of {shown}" + (f" and {some(more, 'more group')}" if more > 0 else "")
    return text


def groups_by_topic(call: Call) -> dict[str, list[str]]:
    """Of the last measurement."""
    described, found = call.rights.described(GROUP), dict[str, list[str]]()
    for each in call.broker.lag.snapshot().groups:
        if each.group in described:
            for topic in {one.topic for one in each.partitions}:
                found.setdefault(topic, []).append(each.group)
    return found


# Configs


async def change_topics(call: Call) -> TopicResults:
    async def one(name: str, is_dry: bool) -> TopicResult:
        changes = changes_to(plain_texts(call.body["configs"]))
        own = dict(seen(call, Operation.ALTER_CONFIGS, name).configs)
        shifts = [shift(call.broker, own, each) for each in changes]
        await call.broker.configs.alter_topic(name, changes, validate_only=is_dry)
        wanted: dict[str, str | None] = {each["name"]: each["after"] for each in shifts}
        wanted |= {each.name: None for each in changes if each.value is None}
        if all(own.get(config) == text for config, text in wanted.items()):
            return result_of(name, "unchanged", "")
        return result_of(name, "would be changed" if is_dry else "changed", "", shifts)

    return await each_of(call, "PATCH", one)


def shift(broker: Broker, own: Mapping[str, str], change: ConfigChange) -> ConfigShift:
    """Raises where there is no such config, or it cannot be that."""
    in_force, name, key = broker.configs.in_force, change.name, topic_config.find(change.name)
    before = in_force.topic_value(name, own)
    value = change.value
    after = in_force.topic_value(name, {}) if value is None else text_of(key.parse(value))
    return {
        "name": name,
        "before": before,
        "after": after,
        "before_words": in_words(name, before),
        "after_words": in_words(name, after),
    }


TEXT = "a dry run unless dry_run is false. Each topic has its own result."

ROUTES = [
    post(
        "/several-topics/delete",
        delete_topics,
        TopicResults,
        f"Delete topics with all their records; {TEXT}",
        body=TopicsDeletion,
        role=ADMIN,
        rights=(),
        either=(DELETE_SOME_TOPIC,),
        asks="DELETE on each topic",
        is_noted=False,
    ),
    post(
        "/several-topics/configs",
        change_topics,
        TopicResults,
        f"Change configs of topics; {TEXT}",
        body=TopicsChange,
        role=OPERATOR,
        rights=(),
        either=(ALTER_CONFIGS_SOME_TOPIC,),
        asks="ALTER_CONFIGS on each topic",
        is_noted=False,
    ),
]
