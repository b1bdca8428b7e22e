"""The mirror's inbox, of what was fetched."""

from __future__ import annotations

import threading

import pytest

from appliance.mirror.inbox import Fetched, Inbox
from tests.support.mirroring import T0


def test_the_inbox_holds_no_more_than_it_may() -> None:
    inbox = Inbox(100)
    rows = [Fetched(T0, None, i, 1, 60) for i in range(3)]
    assert inbox.put(rows[0])
    assert inbox.put(rows[1])
    late = threading.Thread(target=inbox.put, args=(rows[2],))
    late.start()
    assert inbox.take(60, 0) == [rows[0]]
    late.join(10)
    assert inbox.take(1000, 0) == rows[1:]
    inbox.fail(ConnectionError("gone"))
    with pytest.raises(ConnectionError):
        inbox.take(1, 0)
    inbox.close()
    assert not inbox.put(rows[0])
