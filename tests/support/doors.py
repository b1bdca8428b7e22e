"""Ways in to a broker: an address, perhaps TLS, perhaps a login. And the users for them.

    make_people(data_dir, ann="admin", bob="none")      # before the first start
    door = Door(address, user="ann")
    with door.open() as client: ...
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from appliance.access.user_rows import UserRows
from appliance.admin.users import make_user
from appliance.catalog.catalog import NAME, Catalog
from appliance.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from appliance.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from appliance.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from appliance.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.support.scram_client import ScramClient
from tests.support.wire_client import WireClient, frame_of

PASSWORD = "correct horse battery"
SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
CREATE_ACLS, DELETE_ACLS = 30, 31
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 2, 3, 4, 5
READ, WRITE, DESCRIBE = 3, 4, 8
LITERAL, ALLOW = 3, 3

Address = tuple[str, int]


@dataclass(frozen=True)
class Door:
    address: Address
    tls: ssl.SSLContext | None = None
    user: str = ""  # nobody logs in
    password: str = PASSWORD
    mechanism: str = "SCRAM-SHA-256"

    def of(self, user: str) -> Door:
        return replace(self, user=user)

    def open(self, timeout: float = 20, source: str = "127.0.0.1") -> WireClient:
        """AssertionError: who logs in is refused."""
        client = WireClient(self.address, timeout, source)
        try:
            if self.tls is not None:
                client.socket = self.tls.wrap_socket(client.socket, server_hostname="localhost")
            if self.user:
                log_in(client, self.user, self.password, self.mechanism)
        except BaseException:
            client.socket.close()
            raise
        return client


def door_to(place: Door | Address) -> Door:
    return place if isinstance(place, Door) else Door(place)


# Logins

def make_people(data_dir: Path, **roles: str) -> None:
    """In the directory of a broker that does not run."""
    data_dir.mkdir(exist_ok=True, parents=True)
    catalog = Catalog.open(data_dir / NAME)
    for name, role in roles.items():
        make_user(UserRows(catalog), name, role, PASSWORD)
    catalog.close()


def log_in(client: WireClient, user: str, password: str, mechanism: str) -> None:
    shake(client, mechanism)
    if mechanism == "PLAIN":
        welcome(say(client, f"\0{user}\0{password}".encode()))
        return
    scram = ScramClient(mechanism, user, password)
    challenge = welcome(say(client, scram.first()))
    scram.check(welcome(say(client, scram.final(challenge))))


def shake(client: WireClient, mechanism: str) -> None:
    client.send(frame_of(SaslHandshakeRequest(mechanism), SASL_HANDSHAKE, 1))
    answer = client.answer(SaslHandshakeResponse, SASL_HANDSHAKE, 1)
    assert answer.error_code == 0, answer


def say(client: WireClient, data: bytes) -> Any:
    client.send(frame_of(SaslAuthenticateRequest(data), SASL_AUTHENTICATE, 2))
    return client.answer(SaslAuthenticateResponse, SASL_AUTHENTICATE, 2)


def welcome(answer: Any) -> bytes:
    assert answer.error_code == 0, answer
    return bytes(answer.auth_bytes)


# Rules

def allow(admin: WireClient, user: str, operation: int, kind: int, name: str) -> None:
    rule = CreateAclsRequest.AclCreation(
        resource_type=kind, resource_name=name, resource_pattern_type=LITERAL,
        principal=f"User:{user}", host="*", operation=operation, permission_type=ALLOW,
    )  # fmt: skip
    admin.send(frame_of(CreateAclsRequest([rule]), CREATE_ACLS, 3))
    (made,) = admin.answer(CreateAclsResponse, CREATE_ACLS, 3).results
    assert made.error_code == 0, made


def withdraw(admin: WireClient, user: str, operation: int, kind: int, name: str) -> None:
    """What `allow` made, and nothing else."""
    which = DeleteAclsRequest.DeleteAclsFilter(
        resource_type_filter=kind, resource_name_filter=name, pattern_type_filter=LITERAL,
        principal_filter=f"User:{user}", host_filter="*", operation=operation,
        permission_type=ALLOW,
    )  # fmt: skip
    admin.send(frame_of(DeleteAclsRequest([which]), DELETE_ACLS, 3))
    (found,) = admin.answer(DeleteAclsResponse, DELETE_ACLS, 3).filter_results
    assert [each.error_code for each in found.matching_acls] == [0], found
