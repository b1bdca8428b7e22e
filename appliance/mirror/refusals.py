"""Refusals that last until somebody changes something, and what that is.

A mirror that has just started ends with one of these: asking again would change nothing. One that
has worked before goes on asking, because a password, a right or a limit may be on its way.
"""

from __future__ import annotations

from collections.abc import Mapping

from appliance.client.errors import AccessFailed, BrokerRefused, ConfigInvalid
from appliance.errors import ApplianceError
from appliance.mirror.errors import LastingRefusal, TopicsRefused
from appliance.protocol import ErrorCode, VersionUnsupported

LASTING = (AccessFailed, ConfigInvalid, VersionUnsupported, TopicsRefused)

RIGHT = "Give the mirror's user this right: docs/mirror.md has all that it needs"
LIMIT = (
    "A limit or a policy of that cluster forbids it (of an appliance a max.* setting, as "
    "max.transactional.ids.total): change it there, or mirror less"
)
CONFIG = "The cluster does not accept what the mirror asks for: see the settings in docs/mirror.md"
OLD = "The cluster is no Apache Kafka from 2.4 on, and no appliance"
LOGIN = "See 'Logins and TLS' in docs/mirror.md"
TIMEOUT = "Make commit_interval_ms smaller, or the target's transaction.max.timeout.ms larger"

# Left out are those that end by themselves, as INVALID_REPLICATION_FACTOR while brokers are down.
REMEDIES: Mapping[int, str] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: RIGHT,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: RIGHT,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: RIGHT,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: RIGHT,
    ErrorCode.POLICY_VIOLATION: LIMIT,
    ErrorCode.INVALID_TOPIC_EXCEPTION: CONFIG,
    ErrorCode.INVALID_CONFIG: CONFIG,
    ErrorCode.INVALID_PARTITIONS: CONFIG,
    ErrorCode.INVALID_REQUEST: CONFIG,
    ErrorCode.INVALID_GROUP_ID: CONFIG,
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: TIMEOUT,
    ErrorCode.UNSUPPORTED_VERSION: OLD,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: OLD,
    ErrorCode.SECURITY_DISABLED: LOGIN,
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: LOGIN,
    ErrorCode.SASL_AUTHENTICATION_FAILED: LOGIN,
}


def lasting(error: Exception) -> ApplianceError | None:
    """The error to end with, if asking again would change nothing."""
    if isinstance(error, LASTING):
        return error
    if isinstance(error, BrokerRefused) and error.code in REMEDIES:
        return LastingRefusal(error.code, f"{error}. {REMEDIES[error.code]}")
    return None


def of_other_source(recorded: str, own: str, remedy: str) -> str:
    """Why a topic whose records came from `recorded` is not continued by `own`; each is
    CLUSTER/TOPIC-ID. `remedy` is for a mirror of another cluster."""
    there, here = (each.rpartition("/")[0] for each in (recorded, own))
    if there == here:
        return (
            f"the target mirrors {recorded}, the source is now {own}: a new topic. Delete it in "
            "the target to start again"
        )
    return (
        f"the target's topic has the records of cluster {there}, and this source is cluster "
        f"{here}. {remedy}"
    )


KEPT_OF_ONE = (
    "Where offsets are kept, a topic has one source: mirror to another target. Two sources may "
    "share a topic that no such mirror made, each with --offsets map and a --name of its own"
)
MAPPED_OF_ONE = (
    "A mirror of one name has one source: give this one another --name, and the topic gets the "
    "records of both; or mirror to another target"
)
NO_MIRROR = (
    "the target has a topic of that name that no mirror made. Leave it out of --topics, or delete "
    "it in the target if nobody needs its records"
)
KEPT_BY_ANOTHER = (
    "the target's topic is a mirror with kept offsets, of {source}, and only that mirror may write "
    "to it. Mirror to another target, or remove its config mirror.source if that mirror has ended"
)
