"""ACLs and SCRAM credentials: kept, shown, checked as Kafka checks them; not enforced."""

from __future__ import annotations

import base64
import hashlib
import hmac
from pathlib import Path
from typing import Any

import pytest

from appliance.access.acl_rows import AclRows
from appliance.access.acls import Acl, AclFilter
from appliance.access.user_rows import UserRows
from appliance.catalog.catalog import CatalogFailed
from appliance.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
)
from appliance.protocol.messages.create_acls import CreateAclsRequest
from appliance.protocol.messages.delete_acls import DeleteAclsRequest
from appliance.protocol.messages.describe_acls import DescribeAclsRequest
from appliance.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from tests.support.control import Control

ANY = 1
TOPIC, GROUP, CLUSTER = 2, 3, 4
MATCH, LITERAL, PREFIXED = 2, 3, 4
READ, WRITE = 3, 4
DENY, ALLOW = 2, 3

Creation = CreateAclsRequest.AclCreation
Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion


# ACLs


def creation(**facts: Any) -> Creation:
    return Creation(**{
        "resource_type": TOPIC, "resource_name": "t", "resource_pattern_type": LITERAL,
        "principal": "User:ann", "host": "*", "operation": READ, "permission_type": ALLOW, **facts})


def create(control: Control, *creations: Creation, version: int = 3) -> list[int]:
    answer = control.ask(CreateAclsRequest(list(creations)), version)
    return [each.error_code for each in answer.results]


def describe(control: Control, version: int = 3, **facts: Any) -> list[tuple[Any, ...]]:
    asked = DescribeAclsRequest(**{
        "resource_type_filter": ANY, "resource_name_filter": None, "pattern_type_filter": ANY,
        "principal_filter": None, "host_filter": None, "operation": ANY, "permission_type": ANY,
        **facts})
    answer = control.ask(asked, version)
    assert (answer.error_code, answer.error_message) == (0, None)
    return [(each.resource_type, each.resource_name, each.pattern_type, acl.principal, acl.host,
             acl.operation, acl.permission_type)
            for each in answer.resources for acl in each.acls]


ANN = (TOPIC, "t", LITERAL, "User:ann", "*", READ, ALLOW)
BOB = (TOPIC, "t", LITERAL, "User:bob", "10.0.0.1", WRITE, DENY)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_acls_are_kept(tmp_path: Path, version: int) -> None:
    control = Control(tmp_path)
    assert create(control, Creation(*ANN), Creation(*BOB), Creation(*ANN),
                  version=version) == [0, 0, 0]
    control.close()
    control = Control(tmp_path)
    assert describe(control, version) == [ANN, BOB]
    (resource,) = control.ask(DescribeAclsRequest(ANY, None, ANY, None, None, ANY, ANY),
                              version).resources
    assert len(resource.acls) == 2
    control.close()


@pytest.mark.parametrize(("facts", "text"), [
    ({"resource_type": ANY}, "got resource type 1"),
    ({"resource_type": 0}, "got resource type 0"),
    ({"resource_type": 8}, "got resource type 8"),
    ({"resource_name": ""}, "got resource name ''"),
    ({"resource_type": CLUSTER}, "its only name is 'kafka-cluster'"),
    ({"resource_pattern_type": ANY}, "got pattern type 1"),
    ({"resource_pattern_type": MATCH}, "got pattern type 2"),
    ({"operation": ANY}, "got operation 1"),
    ({"operation": 16}, "got operation 16"),
    ({"permission_type": ANY}, "got permission type 1"),
    ({"permission_type": 4}, "got permission type 4"),
    ({"principal": "ann"}, "wanted TYPE:NAME"),
    ({"host": "x" * 40_000}, "wanted at most 1024"),
])
def test_an_acl_that_may_not_be_is_refused_alone(
    control: Control, facts: dict[str, Any], text: str
) -> None:
    answer = control.ask(CreateAclsRequest([creation(**facts), Creation(*ANN)]), 3)
    refused, made = answer.results
    assert (refused.error_code, text in refused.error_message) == (42, True)
    assert (made.error_code, made.error_message) == (0, None)
    assert describe(control) == [ANN]


EXACT = (TOPIC, "orders", LITERAL, "User:ann", "*", READ, ALLOW)
PREFIX = (TOPIC, "ord", PREFIXED, "User:ann", "*", READ, ALLOW)
ALL = (TOPIC, "*", LITERAL, "User:ann", "*", READ, ALLOW)
OTHER = (TOPIC, "clicks", LITERAL, "User:bob", "10.0.0.1", WRITE, DENY)
OF_GROUP = (GROUP, "orders", LITERAL, "User:bob", "*", READ, ALLOW)


@pytest.mark.parametrize(("facts", "found"), [
    ({}, {EXACT, PREFIX, ALL, OTHER, OF_GROUP}),
    ({"resource_type_filter": TOPIC}, {EXACT, PREFIX, ALL, OTHER}),
    ({"resource_name_filter": "orders"}, {EXACT, OF_GROUP}),
    ({"resource_name_filter": "ord"}, {PREFIX}),
    ({"resource_name_filter": "ord", "pattern_type_filter": LITERAL}, set()),
    ({"pattern_type_filter": PREFIXED}, {PREFIX}),
    ({"pattern_type_filter": MATCH}, {EXACT, PREFIX, ALL, OTHER, OF_GROUP}),
    ({"resource_name_filter": "orders", "pattern_type_filter": MATCH},
     {EXACT, PREFIX, ALL, OF_GROUP}),
    ({"resource_name_filter": "or", "pattern_type_filter": MATCH}, {ALL}),
    ({"resource_name_filter": "*", "pattern_type_filter": LITERAL}, {ALL}),
    ({"principal_filter": "User:bob"}, {OTHER, OF_GROUP}),
    ({"host_filter": "10.0.0.1"}, {OTHER}),
    ({"operation": WRITE}, {OTHER}),
    ({"operation": 2}, set()),
    ({"permission_type": DENY}, {OTHER}),
])
def test_a_filter_finds_what_kafka_finds(
    control: Control, facts: dict[str, Any], found: set[Any]
) -> None:
    everything = (EXACT, PREFIX, ALL, OTHER, OF_GROUP)
    assert set(create(control, *(Creation(*each) for each in everything))) == {0}
    assert set(describe(control, **facts)) == found


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("number", [0, 99])
def test_a_filter_that_cannot_be_is_refused(control: Control, place: int, number: int) -> None:
    facts = {each: number if i == place else ANY for i, each in enumerate(
        ("resource_type_filter", "pattern_type_filter", "operation", "permission_type"))}
    answer = control.ask(DescribeAclsRequest(
        resource_name_filter=None, principal_filter=None, host_filter=None, **facts), 3)
    assert (answer.error_code, f"{number}" in answer.error_message) == (42, True)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_acls_are_deleted_by_filters(tmp_path: Path, version: int) -> None:
    control = Control(tmp_path)
    create(control, Creation(*ANN), Creation(*BOB), Creation(*OF_GROUP))
    row = DeleteAclsRequest.DeleteAclsFilter
    answer = control.ask(DeleteAclsRequest([
        row(TOPIC, None, ANY, None, None, ANY, ANY),
        row(TOPIC, "t", LITERAL, "User:ann", None, ANY, ANY),
        row(99, None, ANY, None, None, ANY, ANY),
        row(TOPIC, "none", ANY, None, None, ANY, ANY),
    ]), version)
    rows = [(each.error_code, len(each.matching_acls)) for each in answer.filter_results]
    assert rows == [(0, 2), (0, 1), (42, 0), (0, 0)]
    first = answer.filter_results[1].matching_acls[0]
    assert (first.resource_type, first.resource_name, first.pattern_type, first.principal,
            first.host, first.operation, first.permission_type) == ANN
    assert describe(control) == [OF_GROUP]
    control.close()
    control = Control(tmp_path)
    assert describe(control) == [OF_GROUP]
    control.close()


def test_whoever_makes_the_first_acl_is_warned(
    control: Control, caplog: pytest.LogCaptureFixture
) -> None:
    create(control, Creation(*ANN))
    create(control, Creation(*BOB))
    warned = [each for each in caplog.records if each.levelname == "WARNING"]
    assert [each.getMessage() for each in warned] == [
        "ACLs are kept but not enforced: every client may do everything"]


def test_an_acl_that_cannot_be_kept_is_not_made(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(control, Creation(*BOB))

    def fails(*_: object) -> None:
        raise CatalogFailed("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(AclRows, "change", fails)
        assert create(control, Creation(*ANN), creation(operation=0)) == [56, 42]
        row = DeleteAclsRequest.DeleteAclsFilter(ANY, None, ANY, None, None, ANY, ANY)
        (refused,) = control.ask(DeleteAclsRequest([row]), 3).filter_results
        assert (refused.error_code, refused.matching_acls) == (56, [])
    assert describe(control) == [BOB]


def test_a_filter_with_every_field_matches_its_own_rule_alone() -> None:
    for each in (EXACT, PREFIX, ALL, OTHER, OF_GROUP):
        found = [other for other in (EXACT, PREFIX, ALL, OTHER, OF_GROUP)
                 if AclFilter(*each).matches(Acl(*other))]
        assert found == [each]


# SCRAM


def alter(
    control: Control, deletions: list[Deletion], upsertions: list[Upsertion]
) -> dict[str, int]:
    answer = control.ask(AlterUserScramCredentialsRequest(deletions, upsertions), 0)
    for each in answer.results:
        assert (each.error_message is None) == (each.error_code == 0)
    return {each.user: each.error_code for each in answer.results}


def credentials(control: Control, *users: str) -> dict[str, Any]:
    row = DescribeUserScramCredentialsRequest.UserName
    asked = [row(each) for each in users] or None
    answer = control.ask(DescribeUserScramCredentialsRequest(asked), 0)
    assert (answer.error_code, answer.error_message) == (0, None)
    return {
        each.user: each.error_code
        or [(info.mechanism, info.iterations) for info in each.credential_infos]
        for each in answer.results
    }


def test_credentials_are_kept_and_removed(tmp_path: Path) -> None:
    control = Control(tmp_path)
    assert credentials(control) == {}
    assert alter(control, [], [Upsertion("ann", 1, 4096, b"salt", b"x"),
                               Upsertion("bob", 2, 16384, b"salt", b"x")]) == {"ann": 0, "bob": 0}
    assert alter(control, [], [Upsertion("ann", 2, 8192, b"salt", b"y")]) == {"ann": 0}
    assert alter(control, [], [Upsertion("ann", 1, 5000, b"pepper", b"z")]) == {"ann": 0}
    control.close()
    control = Control(tmp_path)
    assert credentials(control) == {"ann": [(1, 5000), (2, 8192)], "bob": [(2, 16384)]}
    assert credentials(control, "ann", "cid", "bob", "bob") == {
        "ann": [(1, 5000), (2, 8192)], "cid": 91, "bob": 92}
    assert alter(control, [Deletion("ann", 1), Deletion("bob", 2)], []) == {"ann": 0, "bob": 0}
    assert credentials(control) == {"ann": [(2, 8192)]}
    control.close()
    control = Control(tmp_path)
    assert credentials(control) == {"ann": [(2, 8192)]}
    control.close()


def test_a_credential_is_what_the_standard_says_and_not_the_password(tmp_path: Path) -> None:
    """The example of RFC 7677, whose client proof the stored key has to confirm."""
    control = Control(tmp_path)
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", salt, 4096)
    alter(control, [], [Upsertion("user", 1, 4096, salt, salted)])
    (kept,) = UserRows(control.broker.catalog).credentials()
    stored_key, server_key = kept.stored_key, kept.server_key
    assert kept.salt == salt
    assert salted not in (stored_key, server_key)
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    message = (f"n=user,r=rOprNGfwEbeRWgbNEkqO,r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,"
               f"c=biws,r={nonce}").encode()
    signature = hmac.digest(server_key, message, "sha256")
    assert base64.b64encode(signature) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    client_proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    of_stored = hmac.digest(stored_key, message, "sha256")
    client_key = bytes(a ^ b for a, b in zip(client_proof, of_stored, strict=True))
    assert hashlib.sha256(client_key).digest() == stored_key
    control.close()


@pytest.mark.parametrize(("upsertion", "code"), [
    (Upsertion("u", 1, 4095, b"s", b"x"), 93),
    (Upsertion("u", 1, 16385, b"s", b"x"), 93),
    (Upsertion("u", 2, 4095, b"s", b"x"), 93),
    (Upsertion("u", 0, 4096, b"s", b"x"), 33),
    (Upsertion("u", 3, 4096, b"s", b"x"), 33),
    (Upsertion("", 1, 4096, b"s", b"x"), 93),
    (Upsertion("u", 1, 4096, b"s", b""), 93),
])
def test_an_unacceptable_credential_is_refused_alone(
    control: Control, upsertion: Upsertion, code: int
) -> None:
    good = Upsertion("good", 1, 4096, b"s", b"x")
    assert alter(control, [], [upsertion, good]) == {upsertion.name: code, "good": 0}
    assert credentials(control) == {"good": [(1, 4096)]}


@pytest.mark.parametrize(("deletion", "code"), [
    (Deletion("u", 2), 91), (Deletion("none", 1), 91),
    (Deletion("u", 9), 33), (Deletion("", 1), 93),
])
def test_only_what_is_there_is_removed(control: Control, deletion: Deletion, code: int) -> None:
    alter(control, [], [Upsertion("u", 1, 4096, b"s", b"x")])
    assert alter(control, [deletion], []) == {deletion.name: code}
    assert credentials(control) == {"u": [(1, 4096)]}


def test_a_user_may_be_named_once_in_a_request(control: Control) -> None:
    alter(control, [], [Upsertion("u", 1, 4096, b"s", b"x")])
    one, two = Upsertion("u", 1, 5000, b"s", b"x"), Upsertion("u", 2, 5000, b"s", b"x")
    other = Upsertion("other", 1, 4096, b"s", b"x")
    for deletions, upsertions in (
        ([], [one, two, other]),
        ([Deletion("u", 1)], [two, other]),
        ([Deletion("u", 1), Deletion("u", 1)], [other]),
        ([Deletion("u", 1), Deletion("u", 1), Deletion("u", 1)], [one, other]),
    ):
        assert alter(control, deletions, upsertions) == {"u": 92, "other": 0}
        assert credentials(control, "u") == {"u": [(1, 4096)]}


def test_a_credential_that_cannot_be_kept_is_not_set(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise CatalogFailed("the disk is gone")

    monkeypatch.setattr(UserRows, "change", fails)
    bad, good = Upsertion("bad", 1, 1, b"s", b"x"), Upsertion("good", 1, 4096, b"s", b"x")
    assert alter(control, [], [bad, good]) == {"bad": 93, "good": 56}
    assert credentials(control) == {}
