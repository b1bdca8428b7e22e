"""The matrix of rights over sockets: every API, each listener type, at our broker and at Apache
Kafka's."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from appliance.access.user_rows import UserRows
from appliance.admin.users import make_user
from appliance.api.handlers import HANDLERS
from appliance.catalog.catalog import NAME, Catalog
from appliance.protocol import API
from loadtest.ports import lasting_ports
from tests.interop.kafka_broker import KafkaBroker
from tests.interop.kafka_security import Security, listener
from tests.protocol.message_tables import published
from tests.support import rights_matrix
from tests.support.certificates import Authority
from tests.support.kafka_rights import FREE, TABLE
from tests.support.rights_differences import Difference, differences, listeners, written
from tests.support.rights_matrix import Outcome
from tests.support.rights_site import ADMIN, PASSWORD, PRINCIPALS, USERS, Site
from tests.support.warm_broker import WarmBroker

OF_A_LOGIN = {17, 18, 36}
FREE_KEYS = {key for key in HANDLERS if API[key].name in FREE} - {17, 36}
# It says by their ids which partitions the member has; it asks for none
OWN_TOPICS = {"ConsumerGroupHeartbeat"}


@pytest.fixture(scope="module")
def kafka_keys() -> dict[int, str]:
    """All that Kafka has, those between brokers and those of before 4.0 as well."""
    tables = [table for table in published().values() if table["type"] == "request"]
    return {table["apiKey"]: table["name"].removesuffix("Request") for table in tables}


@contextmanager
def our_site(folder: Path) -> Iterator[Site]:
    folder.mkdir()
    catalog = Catalog.open(folder / NAME)
    for name in (ADMIN, *USERS.values()):
        make_user(UserRows(catalog), name, "admin" if name == ADMIN else "none", PASSWORD)
    catalog.close()
    authority = Authority(folder.parent / "tls")
    others = [each for each in PRINCIPALS if each != "PLAINTEXT"]
    addresses = {
        name: f"127.0.0.1:{port}"
        for name, port in zip(others, lasting_ports(len(others)), strict=True)
    }
    words = [
        word for name, where in addresses.items() for word in ("--listen", f"{name}://{where}")
    ]
    settings = {
        "ssl.keystore.location": str(authority.issue("server").both),
        "listener.name.ssl.ssl.client.auth": "required",
        "listener.name.ssl.ssl.truststore.location": str(authority.trust),
    }
    words += [word for name, text in settings.items() for word in ("--set", f"{name}={text}")]
    with WarmBroker(folder, *words) as broker:
        addresses["PLAINTEXT"] = broker.kafka
        with Site(addresses, authority, str(folder)) as site:
            yield site


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with our_site(tmp_path_factory.mktemp("rights") / "data") as site:
        yield site


@pytest.fixture(scope="module")
def outcomes(ours: Site) -> dict[str, list[Outcome]]:
    """By the name of an API."""
    found: dict[str, list[Outcome]] = defaultdict(list)
    for each in rights_matrix.run(ours, rights_matrix.cells()):
        found[each.cell.api].append(each)
    return found


@pytest.mark.parametrize("api", TABLE)
def test_each_cell_is_as_kafka_publishes_it(outcomes: dict[str, list[Outcome]], api: str) -> None:
    assert [fault for each in outcomes[api] for fault in each.faults()] == []


# Who has not said who it is


@pytest.mark.parametrize("protocol", USERS)
def test_before_a_login_only_the_login_is_answered(
    ours: Site, kafka_keys: dict[int, str], protocol: str
) -> None:
    found = {key: rights_matrix.unknown(ours, protocol, key) for key in kafka_keys}
    assert {key for key in found if found[key] == "answered"} == OF_A_LOGIN
    assert set(found.values()) == {"answered", "closed"}


def test_without_the_certificate_that_is_asked_for_nothing_is_answered(
    ours: Site, kafka_keys: dict[int, str]
) -> None:
    assert {rights_matrix.unknown(ours, "SSL", key) for key in kafka_keys} == {"closed"}


@pytest.mark.parametrize("protocol", PRINCIPALS)
def test_what_needs_no_right_is_never_refused(ours: Site, protocol: str) -> None:
    ours.set_rules([])
    found = {API[key].name: rights_matrix.free(ours, protocol, key) for key in FREE_KEYS}
    assert {name for name, told in found.items() if re.search("closed|AUTHORIZ", told)} == set()


# The matrix has everything


def test_every_api_of_kafka_is_in_the_table_or_named_as_not_served(
    kafka_keys: dict[int, str],
) -> None:
    served = {API[key].name for key in HANDLERS}
    assert served == TABLE.keys() | FREE
    others = {key: name for key, name in kafka_keys.items() if name not in served}
    assert others.keys() == named_as_not_served()


def named_as_not_served() -> set[int]:
    """By docs/protocol.md: one by one, and the ranges of those between brokers."""
    page = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text()
    _, _, text = page.partition("## Not served")
    (ranges,) = re.findall(r"\(keys ([\d\s,-]+)\)", text)
    found = {int(key) for key in re.findall(r"\((\d+)\)", text)}
    for each in ranges.split(","):
        first, _, last = each.strip().partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def test_what_can_name_a_topic_by_its_id_is_asked_by_id() -> None:
    by_id = {name for name, rows in TABLE.items() if any(row.by_id for row in rows)}
    known = {API[key].name for key in HANDLERS if has_topic_id(API[key].request)}
    assert by_id == known - OWN_TOPICS


def has_topic_id(message: type) -> bool:
    inner = [each for each in vars(message).values() if isinstance(each, type)]
    own = getattr(message, "__dataclass_fields__", {})
    return "topic_id" in own or any(map(has_topic_id, inner))


# At Apache Kafka


@contextmanager
def kafka_site(folder: Path) -> Iterator[Site]:
    authority = Authority(folder / "tls")
    users = dict.fromkeys((ADMIN, *USERS.values()), PASSWORD)
    settings = listener("SSL", {"ssl.client.auth": "required"})
    settings |= {"auto.create.topics.enable": "true", "delegation.token.secret.key": "secret"}
    security = Security(tuple(PRINCIPALS), users, (f"User:{ADMIN}",), authority=authority,
                        settings=settings)  # fmt: skip
    with (
        KafkaBroker(folder / "node", security=security) as kafka,
        Site(kafka.addresses, authority, str(kafka.log_dir), are_in_force=False) as site,
    ):
        yield site


@pytest.mark.release("it starts an Apache Kafka")
def test_apache_kafka_answers_alike_but_for_what_is_written(
    outcomes: dict[str, list[Outcome]], ours: Site, tmp_path: Path
) -> None:
    own = [each for api in outcomes.values() for each in api]
    with kafka_site(tmp_path) as kafka:
        # all at once, as ours was asked: names have the place of their cell
        found = differences(own, rights_matrix.run(kafka, rights_matrix.cells()))
        found |= differences_of_logins(ours, kafka)
    missing, gone = sorted(found - written().keys()), sorted(written().keys() - found)
    assert (missing, gone) == ([], []), "\n".join(map(str, missing))


def differences_of_logins(ours: Site, kafka: Site) -> set[Difference]:
    """Before it, and after it of what needs no right."""
    asks = [("before a login", rights_matrix.unknown, protocol, key)
            for key in HANDLERS for protocol in (*USERS, "SSL")]  # fmt: skip
    asks += [("without a right", rights_matrix.free, protocol, key)
             for key in FREE_KEYS for protocol in PRINCIPALS]  # fmt: skip
    found = defaultdict(list)
    for situation, ask, protocol, key in asks:
        here, there = (ask(site, protocol, key) for site in (ours, kafka))
        if here != there:
            found[key, situation, here, there].append(protocol)
    return {Difference(API[key].name, HANDLERS[key].VERSIONS[1], situation, listeners(where),
                       here, there)
            for (key, situation, here, there), where in found.items()}  # fmt: skip
