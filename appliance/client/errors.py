"""The errors between a client and its brokers, a class for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from appliance.errors import ApplianceError
from appliance.protocol import ErrorCode

if TYPE_CHECKING:
    from appliance.client.broker_partition import BrokerPartition
    from appliance.client.range_assignor import TopicPartition

CODES = frozenset(ErrorCode)

# Codes after which the same request may succeed: Kafka's list of retriable errors, as far as this
# library's requests get them.
RETRIABLE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
)


E = TypeVar("E", bound="ClientError")


class ClientError(ApplianceError):
    """An error of this library. Programs need not read its text: what is known of its place is in
    these attributes, and None is what is not known. It can be pickled."""

    topic: str | None = None
    partition: BrokerPartition | None = None
    offset: int | None = None
    broker: str | None = None  # HOST:PORT
    code: int | None = None  # of Kafka's protocol, an ErrorCode if it is known

    def at(
        self: E,
        of: TopicPartition | None = None,
        *,
        topic: str | None = None,
        partition: BrokerPartition | None = None,
        offset: int | None = None,
        broker: object = None,
    ) -> E:
        if of is not None:
            topic, partition = of
        self.topic, self.partition, self.offset = topic, partition, offset
        self.broker = None if broker is None else str(broker)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _made_again, (type(self), self.args, self.__dict__)


def _made_again(kind: type[ClientError], args: tuple[Any, ...], fields: dict[str, Any]) -> Any:
    error = kind.__new__(kind, *args)
    error.__dict__.update(fields)
    return error


class ConfigInvalid(ApplianceError):
    """A setting cannot have this value. The text has its name, the value and the allowed values."""


class BrokerUnavailable(ClientError):
    """No connection to a broker, or no broker."""

    retriable = True


class AccessFailed(ClientError):
    """Client and broker do not accept each other. It stays so until somebody changes a setting, a
    password or a certificate, so nothing is tried again by itself."""


class LoginFailed(AccessFailed):
    """The text has user and mechanism, never the secret."""


class TlsFailed(AccessFailed):
    """One side does not accept the certificate or the protocol of the other one. The text says
    which file or name to mend."""


class ConnectionLost(BrokerUnavailable):
    """The connection broke. Requests in flight may or may not have been executed."""


class RequestTimedOut(BrokerUnavailable):
    """No answer in time. The request may or may not have been executed."""


class NoBrokers(BrokerUnavailable):
    """No known broker can be reached, or no broker is known."""


class TopicUnknown(ClientError):
    retriable = True


class PartitionUnknown(ClientError):
    retriable = True


class BrokerRefused(ClientError):
    """A broker answered with an error code."""

    def __init__(self, code: int, facts: str) -> None:
        self.code: int = ErrorCode(code) if code in CODES else code
        name = ErrorCode(code).name if code in CODES else f"error {code}"
        super().__init__(f"{facts}: {name}")

    @property
    def retriable(self) -> bool:  # type: ignore[override]
        return self.code in RETRIABLE


class TopicMadeAnew(BrokerRefused):
    """The topic was deleted and another topic has its name. Offsets of the old topic do not apply
    to the new one."""

    retriable = False

    def __init__(self, of: TopicPartition, offset: int | None, was: UUID, now: UUID) -> None:
        self.of, self.was, self.now = of, was, now
        self.at(of, offset=offset)
        self.code = ErrorCode.INCONSISTENT_TOPIC_ID
        position = "the last read" if offset is None else f"offset {offset}"
        ApplianceError.__init__(
            self,
            f"{of}: {position} is of the topic with id {was}, and {of.topic!r} has id {now} "
            "now: it was deleted and created again. Nothing of the new topic was read. To read it "
            "from its first record: SimpleConsumer.begin_anew(topic) and the offset EARLIEST; "
            "topic_made_anew='smallest', or another group_id, for a ConsumerConnector",
        )


class OffsetOutOfRange(BrokerRefused):
    """The broker does not have the offset yet, or no longer."""


class MessageTooLarge(ClientError):
    """A batch above `fetch_size_max`."""


class ConsumerTimeout(ClientError):
    """A stream had nothing to read for `consumer_timeout_ms`."""


class CommitFailed(ClientError):
    """Offsets were not stored, or possibly not stored. `failures`: the errors of the coordinators
    that did not store them."""

    retriable = True

    def __init__(self, text: str, failures: Sequence[ApplianceError] = ()) -> None:
        self.failures = tuple(failures)
        super().__init__(text)
