"""Logins and rights at Kafka's port. Most of it can be set for one listener."""

from __future__ import annotations

from dataclasses import dataclass

from appliance.config.names import NO_NAMES, NO_PRINCIPALS, Mechanisms, Names, Principals
from appliance.config.setting import (
    HOUR_MS,
    NO_LIMIT,
    SECOND_MS,
    Part,
    SettingInvalid,
    setting,
)

PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
SCRAM_SHA_256, SCRAM_SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
MECHANISMS = (SCRAM_SHA_512, SCRAM_SHA_256, PLAIN, OAUTHBEARER)
SHOWING = (PLAIN, OAUTHBEARER)  # what the client sends is all that a login takes

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

# Of the digital signatures that a JWT may have. None of them is made with a secret that we would
# have to know, too: who has the public keys could make tokens then.
SIGNATURES = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512",
              "EdDSA")  # fmt: skip


@dataclass(frozen=True)
class AccessConfig(Part):
    mechanisms: Mechanisms = setting(
        "sasl.enabled.mechanisms",
        Mechanisms((SCRAM_SHA_512, SCRAM_SHA_256)),
        "The ways in which clients may log in: SCRAM-SHA-512, SCRAM-SHA-256, PLAIN, OAUTHBEARER. "
        "Clients take the first that they know, or the one that they are told.",
        of_listener=True,
    )
    may_show_secrets: bool = setting(
        "sasl.secrets.without.encryption",
        False,
        "Whether PLAIN and OAUTHBEARER are allowed on a listener without encryption. Everybody "
        "between client and broker can read the passwords and tokens then, and log in with them; "
        "with SCRAM nobody can.",
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
    failed_rate_max: int = setting(
        "max.failed.authentication.rate",
        NO_LIMIT,
        "Logins with a wrong name or password that a second may have, however many addresses they "
        "come from: `listener.name.<name>.` in front is for one listener, beside the rate of all. "
        "Beyond it only those are let in who have logged in from their address since the start: a "
        "guesser with many addresses does not come far, but can keep others out. So there is none "
        "unless it is set. May change at run time.",
        minimum=1,
        maximum=NO_LIMIT,
        default_words="no limit",
        of_listener=True,
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
    may_dump: bool = setting(
        "core.dumps.enable",
        False,
        "Whether a crash may leave a core file, and programs of the same user may look into the "
        "process (gdb, py-spy, perf). Memory holds passwords while they are checked, and keys. "
        "Root may look in any case.",
    )
    audit_file: str = setting(
        "audit.log.file",
        "",
        "A file to which each row of the audit trail is appended, too, as a line of JSON. It may "
        "be moved away at any time. Only the owner may read it.",
        default_words="none",
    )
    audit_is_logged: bool = setting(
        "audit.log.enable",
        False,
        "Whether the rows of the audit trail are in the log, too, and so in systemd's journal.",
    )
    jwks_url: str = setting(
        "sasl.oauthbearer.jwks.endpoint.url",
        "",
        "Where the public keys are that sign tokens of OAUTHBEARER: `https://...`, or `file:///...`"
        " for a file on this machine.",
        default_words="none",
        of_listener=True,
    )
    jwks_refresh_ms: int = setting(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        HOUR_MS,
        "How often the keys are read again. A token with a key that is not known is a reason to do "
        "so at once, at most every ten seconds.",
        minimum=10 * SECOND_MS,
        of_listener=True,
    )
    issuer: str = setting(
        "sasl.oauthbearer.expected.issuer",
        "",
        "The `iss` that a token must have. OAUTHBEARER is refused without this setting: keys of one"
        " service sign for many.",
        default_words="none",
        of_listener=True,
    )
    audience: Names = setting(
        "sasl.oauthbearer.expected.audience",
        NO_NAMES,
        "One of these must be in the `aud` of a token. OAUTHBEARER is refused without this "
        "setting: a token for another service is not for us.",
        default_words="none",
        of_listener=True,
    )
    clock_skew_seconds: int = setting(
        "sasl.oauthbearer.clock.skew.seconds",
        30,
        "How far the clock of who makes tokens may be from ours.",
        minimum=0,
        maximum=600,
        of_listener=True,
    )
    subject_claim: str = setting(
        "sasl.oauthbearer.sub.claim.name",
        "sub",
        "The claim of a token that is the name of the user.",
        of_listener=True,
    )
    signatures: Names = setting(
        "sasl.oauthbearer.algorithms",
        Names(("RS256", "PS256", "ES256", "EdDSA")),
        f"The signatures that a token may have: {', '.join(SIGNATURES)}. Others are refused, "
        "whatever the token says of itself.",
        of_listener=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for what, found, known in (
            ("sasl.enabled.mechanisms", self.mechanisms.all, MECHANISMS),
            ("sasl.oauthbearer.algorithms", self.signatures.all, SIGNATURES),
        ):
            unknown = [each for each in found if each not in known]
            if unknown or not found:
                raise SettingInvalid(
                    f"{what}: got {','.join(unknown) or 'nothing'}, wanted one or more of "
                    f"{', '.join(known)}"
                )
        if OAUTHBEARER in self.mechanisms.all:
            self._check_tokens()

    def _check_tokens(self) -> None:
        for what, is_told in (
            ("sasl.oauthbearer.jwks.endpoint.url", bool(self.jwks_url)),
            ("sasl.oauthbearer.expected.issuer", bool(self.issuer)),
            ("sasl.oauthbearer.expected.audience", self.audience != NO_NAMES),
        ):
            if not is_told:
                raise SettingInvalid(f"{what}: got nothing; {OAUTHBEARER} wants it")
        if not self.jwks_url.startswith(("https://", "file:///")):
            raise SettingInvalid(
                f"sasl.oauthbearer.jwks.endpoint.url: got {self.jwks_url}, wanted https:// or "
                "file:///: who can change the keys on their way can log in as anybody"
            )
