from __future__ import annotations

from uuid import UUID

import pytest

from appliance.protocol import ErrorCode
from appliance.share.session import (
    EPOCH_MAX,
    Member,
    ShareSessions,
    TopicPartition,
)
from appliance.share.states import ShareRefused

A, B = Member("g", "a"), Member("g", "b")
T = [TopicPartition(UUID(int=1), i) for i in range(5)]


def test_epochs_go_up_by_one() -> None:
    sessions = ShareSessions(10, 10, 100)
    session = sessions.open(A, 1, T[:2])
    for epoch in (1, 2, 3):
        assert sessions.step(A, epoch) is session
    with pytest.raises(ShareRefused, match="got share session epoch 3 of member a, wanted 4"):
        sessions.step(A, 3)
    session.epoch = EPOCH_MAX
    sessions.step(A, EPOCH_MAX)
    assert session.epoch == 1


def test_a_new_session_takes_the_place_of_the_old() -> None:
    sessions = ShareSessions(1, 10, 100)
    old = sessions.open(A, 1, T)
    new = sessions.open(A, 2, T[:1])
    assert (old.is_open, new.is_open, len(sessions)) == (False, True, 1)
    assert (sessions.of_connection(1), sessions.of_connection(2)) == ([], [A])


def test_sessions_and_their_partitions_are_bounded() -> None:
    sessions = ShareSessions(1, 3, 100)
    session = sessions.open(A, 1, T[:2])
    with pytest.raises(ShareRefused, match=r"group\.share\.max\.share\.sessions") as refused:
        sessions.open(B, 1, [])
    assert refused.value.kafka_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    sessions.change(session, T[:3], [])
    with pytest.raises(ShareRefused, match=r"got 4 partitions .* at most 3 \(group"):
        sessions.change(session, [T[4]], [])
    sessions.close(A)
    sessions.open(B, 1, [])


def test_partitions_come_and_go_and_begin_in_turn() -> None:
    sessions = ShareSessions(10, 10, 100)
    session = sessions.open(A, 1, T[:3])
    assert session.in_turn() == [T[1], T[2], T[0]]
    sessions.step(A, 1)
    assert session.in_turn() == [T[2], T[0], T[1]]
    sessions.change(session, [T[3], T[0]], [T[1], T[3], T[4]])
    assert [*session.partitions] == [T[0], T[2]]


def test_what_is_closed_is_not_found() -> None:
    sessions = ShareSessions(10, 10, 100)
    sessions.open(A, 1, T)
    assert sessions.close(A) is not None
    assert sessions.close(A) is None
    with pytest.raises(ShareRefused, match="member a has no share session in group g"):
        sessions.find(A)


def test_partitions_of_all_sessions_are_bounded() -> None:
    sessions = ShareSessions(10, 5, 6)
    first = sessions.open(A, 1, T)
    with pytest.raises(ShareRefused, match=r"7 partitions .* at most 6 \(fetch") as refused:
        sessions.open(B, 1, T[:2])
    assert refused.value.kafka_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    sessions.change(first, [], T[:1])
    sessions.open(B, 1, T[:2])
    sessions.close(A)
    sessions.change(sessions.find(B), T, [])
