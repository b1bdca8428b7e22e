"""Every fact that can be reported upward: one class each, with the error code that tells a client.

The compiled core returns the codes of `_codes.pxd`; `from_code` is the one map to these classes.
"""

from __future__ import annotations

from collections.abc import Iterable

from appliance import __version__


class ApplianceError(Exception):
    """Base of all that this package raises on purpose. `kafka_code` is what a client is told."""

    kafka_code = -1
    retriable = False


def raise_first(failures: Iterable[ApplianceError]) -> None:
    """Of what was done to many."""
    for each in failures:
        raise each


class Refused(ApplianceError):
    """What was asked for may not be, or not now. The code is what the client sees, the text says
    which, got, wanted."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.kafka_code = int(code)


class DataNewer(ApplianceError):
    """Data in a format that this build does not know: a newer one wrote it. It is never taken for
    damaged, and nothing of it is changed."""

    kafka_code = 56

    def __init__(self, text: str) -> None:
        super().__init__(
            f"{text}. Nothing was changed. Install that version of the appliance or a later one, "
            f"this is {__version__}; or restore a backup from before it (docs/upgrade.md)"
        )

    @classmethod
    def of(cls, what: str, found: object, known: object, writer: str = "a newer one") -> DataNewer:
        """Who wrote it is said where that is known."""
        return cls(f"{what} has format {found}, and this appliance knows up to {known}: "
                   f"{writer} wrote it")  # fmt: skip


class BatchTorn(ApplianceError):
    kafka_code = 2


class BatchCorrupt(ApplianceError):
    kafka_code = 2


class BatchMagicUnsupported(ApplianceError):
    kafka_code = 43


class BatchInvalid(ApplianceError):
    kafka_code = 87


class BatchTooLarge(ApplianceError):
    kafka_code = 10


class BatchCodecUnknown(ApplianceError):
    kafka_code = 76


class BatchTimestampInvalid(ApplianceError):
    kafka_code = 32


class BatchLargerThanSegment(ApplianceError):
    kafka_code = 18


class SequenceOutOfOrder(ApplianceError):
    kafka_code = 45


class ProducerEpochOld(ApplianceError):
    kafka_code = 47


class ProducerUnknown(ApplianceError):
    kafka_code = 59


class TransactionStateInvalid(ApplianceError):
    kafka_code = 48


class TransactionCoordinatorFenced(ApplianceError):
    kafka_code = 52


class OffsetOutOfRange(ApplianceError):
    kafka_code = 1


class OffsetInHole(ApplianceError):
    kafka_code = 2


class LeaderEpochOld(ApplianceError):
    kafka_code = 74


class LogClosed(ApplianceError):
    kafka_code = 6


class LogFailed(ApplianceError):
    kafka_code = 56


class TimedOut(ApplianceError):
    kafka_code = 7


class LogMirrored(ApplianceError):
    kafka_code = 44


class NotLeader(ApplianceError):
    kafka_code = 6


class LeaderEpochUnknown(ApplianceError):
    kafka_code = 75


class ReplicaLifeOld(ApplianceError):
    kafka_code = 77


class ReplicaUnknown(ApplianceError):
    kafka_code = 6


class ReplicasTooFew(ApplianceError):
    kafka_code = 19


class StorageFull(ApplianceError):
    kafka_code = 56


class StorageFullLate(ApplianceError):
    """There was no room at a sync: what was written before it is lost, and was not acknowledged."""

    kafka_code = 56


class StorageIoFailed(ApplianceError):
    kafka_code = 56


class TlsUnavailable(ApplianceError):
    """Python's OpenSSL cannot be used for the port of Kafka: too old, or its names are hidden."""


class TlsInvalid(ApplianceError):
    """A certificate, key, trust store or setting of TLS that cannot be used, with the file."""


class ListenFailed(ApplianceError):
    """The address for clients is taken, or is none of this machine's."""


class FilesExhausted(ApplianceError):
    kafka_code = 56


class RequestInvalid(ApplianceError):
    kafka_code = 42


class ResourceUnknown(ApplianceError):
    kafka_code = 91


_BY_CODE: dict[int, type[ApplianceError]] = {
    -1: BatchTorn,
    -2: BatchCorrupt,
    -3: BatchMagicUnsupported,
    -4: BatchInvalid,
    -5: BatchTooLarge,
    -6: BatchCodecUnknown,
    -7: BatchTimestampInvalid,
    -8: BatchLargerThanSegment,
    -20: SequenceOutOfOrder,
    -22: ProducerEpochOld,
    -23: ProducerUnknown,
    -24: TransactionStateInvalid,
    -25: TransactionCoordinatorFenced,
    -40: OffsetOutOfRange,
    -41: OffsetInHole,
    -42: LeaderEpochOld,
    -43: LogClosed,
    -44: LogFailed,
    -45: TimedOut,
    -46: LogMirrored,
    -47: NotLeader,
    -48: LeaderEpochUnknown,
    -49: ReplicaLifeOld,
    -50: ReplicaUnknown,
    -51: ReplicasTooFew,
    -60: StorageFull,
    -61: StorageIoFailed,
    -62: FilesExhausted,
    -64: StorageFullLate,
}


def from_code(code: int, facts: str) -> ApplianceError:
    """The exception for a negative code of the compiled core; `facts` says which, got, wanted."""
    kind = _BY_CODE[code]
    if kind is StorageFull and "the disk is full" not in facts:
        facts = f"the disk is full: {facts}"
    return kind(facts)
