"""What a record of a share partition can be, and what its reader may say of it.

    Available     to be delivered, for the first time or again
    Acquired      with one member, until it says what became of it, or its lock times out
    Acknowledged  done
    Archived      not to be delivered any more: rejected, delivered too often, aborted, not there

The numbers are those of Kafka, on disk and on the wire. Acquired is never written: what a crash
finds acquired is available again.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from appliance.errors import Refused


class RecordState(IntEnum):
    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


FINAL = frozenset({RecordState.ACKNOWLEDGED, RecordState.ARCHIVED})


class AcknowledgeType(IntEnum):
    GAP = 0  # the reader found no record at this offset
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4  # it needs more time: the lock begins anew


# What each makes of an acquired record; one that is renewed stays acquired.
AFTER: Mapping[AcknowledgeType, RecordState] = {
    AcknowledgeType.GAP: RecordState.ARCHIVED,
    AcknowledgeType.ACCEPT: RecordState.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: RecordState.AVAILABLE,
    AcknowledgeType.REJECT: RecordState.ARCHIVED,
}


class ShareRefused(Refused):
    """What was asked of a share partition may not be, or not now."""
