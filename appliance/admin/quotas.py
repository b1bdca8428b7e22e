"""Quotas of clients over REST: list, set, remove; `access/client_quotas.py` says what they mean."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypedDict

from typing_extensions import NotRequired

from appliance.access.client_quotas import CLIENT_ID, ENFORCED, IP, USER, Alteration
from appliance.admin.rights import ALTER_CLUSTER_CONFIGS, DESCRIBE_CLUSTER_CONFIGS
from appliance.admin.route import ADMIN, Call, get, post
from appliance.config.config_words import plain, size
from appliance.errors import RequestInvalid

EVERY = {
    USER: "every user",
    CLIENT_ID: "every client",
    IP: "every address",
}
BYTES = frozenset({"producer_byte_rate", "consumer_byte_rate"})
WHOLE_MAX = 2**53  # beyond it a number of JSON is not exact


class QuotaEntity(TypedDict):
    """null: all of that kind that have no quota of their own."""

    user: NotRequired[str | None]
    client_id: NotRequired[str | None]
    ip: NotRequired[str | None]


class QuotaValue(TypedDict):
    name: str
    value: float
    words: str  # 10 MiB/s
    has_effect: bool


class Quota(TypedDict):
    entity: QuotaEntity
    who: str  # in words
    values: list[QuotaValue]


class QuotaList(TypedDict):
    quotas: list[Quota]


class QuotaChange(TypedDict):
    entity: QuotaEntity
    values: dict[str, str | None]  # as a number, or as 10 MiB; None: removed


def list_quotas(call: Call) -> QuotaList:
    found = call.broker.quotas.find([], is_strict=False)
    return {"quotas": [quota_of(dict(entity), values) for entity, values in found]}


def quota_of(entity: Mapping[str, str | None], values: Mapping[str, float]) -> Quota:
    named: QuotaEntity = {}
    if USER in entity:
        named["user"] = entity[USER]
    if CLIENT_ID in entity:
        named["client_id"] = entity[CLIENT_ID]
    if IP in entity:
        named["ip"] = entity[IP]
    rows: list[QuotaValue] = [
        {"name": name, "value": value, "words": in_words(name, value),
         "has_effect": name in ENFORCED.values()}
        for name, value in sorted(values.items())
    ]  # fmt: skip
    return {"entity": named, "who": who(entity), "values": rows}


def who(entity: Mapping[str, str | None]) -> str:
    """client x of user ada; every client of user ada."""
    words = {USER: "user", CLIENT_ID: "client", IP: "address"}
    parts = [
        EVERY[kind] if entity[kind] is None else f"{words[kind]} {entity[kind]}"
        for kind in (CLIENT_ID, USER, IP)
        if kind in entity
    ]
    return " of ".join(parts)


def in_words(name: str, value: float) -> str:
    if name in BYTES and value < WHOLE_MAX:
        return f"{size(int(value))}/s"
    shown = f"{value:.0f}" if math.fmod(value, 1) == 0 else f"{value}"
    return f"{shown} %" if name == "request_percentage" else f"{shown}/s"


async def change_quotas(call: Call) -> QuotaList:
    body: QuotaChange = call.body
    asked = body["entity"]
    entity: list[tuple[str, str | None]] = []
    if "user" in asked:
        entity.append((USER, asked["user"]))
    if "client_id" in asked:
        entity.append((CLIENT_ID, asked["client_id"]))
    if "ip" in asked:
        entity.append((IP, asked["ip"]))
    values = [(name, number(name, text)) for name, text in body["values"].items()]
    (fault,) = await call.broker.quotas.alter([Alteration(entity, values)], validate_only=False)
    if fault is not None:
        raise fault
    return list_quotas(call)


def number(name: str, text: str | None) -> float | None:
    if text is None:
        return None
    bare = text.strip().removesuffix("/s").strip()
    if name in BYTES:
        bare = plain(f"{name}.bytes", bare)
    try:
        value = float(bare)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        wanted = "a number, also as 500 KiB or 10 MB" if name in BYTES else "a number"
        raise RequestInvalid(f"{name}: got {text[:80]!r}, wanted {wanted}")
    return value


ROUTES = [
    get(
        "/quotas",
        list_quotas,
        QuotaList,
        "Quotas of users, client ids and addresses.",
        rights=(DESCRIBE_CLUSTER_CONFIGS,),
    ),
    post(
        "/quotas",
        change_quotas,
        QuotaList,
        "Set or remove quotas of one of them.",
        body=QuotaChange,
        role=ADMIN,
        rights=(ALTER_CLUSTER_CONFIGS,),
    ),
]
