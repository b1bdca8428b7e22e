"""What a log knows of a producer, and whether it refuses a batch of one."""

from __future__ import annotations

import pytest

from appliance._log import Log
from appliance.errors import ApplianceError
from appliance.storage._log_description import ProducerInfo


def producer(log: Log, pid: int = 7) -> ProducerInfo:
    (found,) = [each for each in log.producers() if each.producer_id == pid]
    return found


def refused(log: Log, data: bytes, error: type[ApplianceError], origin: str = "client") -> None:
    """And nothing is written, nothing changes."""
    before = (log.log_end_offset, sorted(log.producers()))
    with pytest.raises(error):
        log.append(data, origin=origin)
    assert before == (log.log_end_offset, sorted(log.producers()))
