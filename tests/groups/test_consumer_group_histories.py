"""Random histories of a group of the newer protocol end in its target."""

from __future__ import annotations

from typing import Any

import pytest

from appliance.groups.handover import next_assignment
from appliance.groups.states import ConsumerState
from tests.support.consumer_group_history import History, run


def test_random_histories_find_a_broker_that_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def hasty(*given: Any) -> Any:
        return next_assignment(*given[:4], lambda place: True)

    monkeypatch.setattr("appliance.groups.consumer_group.next_assignment", hasty)
    with pytest.raises(AssertionError, match="not m"):
        run(History(0))


@pytest.mark.parametrize("seed", range(150))
def test_random_histories_end_in_the_target(seed: int) -> None:
    history = History(seed)
    run(history)
    group, topics = history.world.group, history.world.topics
    assert group.members.keys() == history.clients.keys()
    assert group.state is (ConsumerState.STABLE if group.members else ConsumerState.EMPTY)
    wanted = group.subscribed() & topics.partitions.keys()
    owned = [place for each in history.clients.values() for place in each.owned]
    assert sorted(owned) == sorted(topics.all(*wanted)), "everything, once"
    for each in group.all():
        assert each.now.assigned == group.targets[each.id] == history.clients[each.id].owned
        names = group.wanted_by(each) & topics.partitions.keys()
        assert each.now.assigned <= topics.all(*names)
    history.world.restart()
    assert {each.id: each.now for each in history.world.group.all()} == {
        each.id: each.now for each in group.all()
    }
