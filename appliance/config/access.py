"""Logins and rights at Kafka's port. Most of it can be set for one listener."""

from __future__ import annotations

from dataclasses import dataclass

from appliance.config.names import NO_PRINCIPALS, Mechanisms, Principals
from appliance.config.setting import SECOND_MS, Part, SettingInvalid, setting

PLAIN = "PLAIN"
SCRAM_SHA_256, SCRAM_SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
MECHANISMS = (SCRAM_SHA_512, SCRAM_SHA_256, PLAIN)

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

@dataclass(frozen=True)
class AccessConfig(Part):
    mechanisms: Mechanisms = setting(
        "sasl.enabled.mechanisms",
        Mechanisms((SCRAM_SHA_512, SCRAM_SHA_256)),
        "The ways in which clients may log in: SCRAM-SHA-512, SCRAM-SHA-256, PLAIN. "
        "Clients take the first that they know, or the one that they are told.",
        of_listener=True,
    )
    is_plain_open: bool = setting(
        "sasl.plain.without.encryption",
        False,
        "Whether PLAIN is allowed on a listener without encryption. Everybody between client and "
        "broker can read the passwords then; with SCRAM nobody can.",
        of_listener=True,
    )
    reauth_ms_max: int = setting(
        "connections.max.reauth.ms",
        0,
        "How long a login is good for. After that the client has to log in again on the same "
        "connection (KIP-368), or the connection is closed. 0 is for ever, and for OAUTHBEARER as "
        "long as its token.",
        minimum=0,
        of_listener=True,
    )
    failed_delay_ms: int = setting(
        "connection.failed.authentication.delay.ms",
        100,
        "How long a client waits for the answer to a failed login. Each failure of the same user "
        "from the same address doubles it, up to 32 times this, and counts for a minute.",
        minimum=0,
        maximum=SECOND_MS,
    )
    login_threads: int = setting(
        "sasl.login.threads",
        2,
        "Threads that check passwords of PLAIN, and tokens of OAUTHBEARER. A password takes "
        "some milliseconds; SCRAM leaves this work to the client.",
        minimum=1,
        maximum=64,
    )
    logins_max: int = setting(
        "sasl.logins.max",
        1000,
        "Largest number of logins that wait for these threads. More are refused at once.",
        minimum=1,
    )
    super_users: Principals = setting(
        "super.users",
        NO_PRINCIPALS,
        "Principals that may do everything, as `User:ann;User:bob`. Users with the role admin may, "
        "too, and need not be here.",
        default_words="none",
    )
    allows_without_rule: bool = setting(
        "allow.everyone.if.no.acl.found",
        False,
        "Whether everybody may do what no rule is about. It holds where rules are enforced: as "
        "soon as one listener has a login.",
    )
    authorizer: str = setting(
        "authorizer.class.name",
        "",
        "Kafka's authorizer by its name enforces rules although no listener has a login. Clients "
        "are then `User:ANONYMOUS`, and may do what rules allow to it.",
        choices=("", STANDARD_AUTHORIZER),
        default_words="none",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        unknown = [each for each in self.mechanisms.all if each not in MECHANISMS]
        if unknown or not self.mechanisms.all:
            raise SettingInvalid(
                f"sasl.enabled.mechanisms: got {','.join(unknown) or 'nothing'}, wanted one or "
                f"more of {', '.join(MECHANISMS)}"
            )
