"""The list of the last changes of a cluster's facts, and names in paths."""

from __future__ import annotations

import pytest

from appliance.cluster import paths
from appliance.cluster.fact_nodes import LISTED_BYTES_MAX, NOTHING, Root, root_from
from appliance.cluster.forms import FormUnknown


def changed(root: Root, *names: str) -> Root:
    return root.after([("users", each) for each in names])


def test_it_tells_what_the_last_changes_touched() -> None:
    root = Root("set", NOTHING.number).after(None)
    for number in range(200):
        root = changed(root, f"u{number}")
    assert root.number == 200
    assert root.since(root.number) == []
    assert root.since(198) == [("users", "u198"), ("users", "u199")]
    assert root.since(100) is None, "it is listed no more"
    assert root_from(root.node, root.number) == root


def test_a_long_list_is_cut_and_a_large_change_is_everything() -> None:
    many = [f"{'x' * 100}{number}" for number in range(500)]
    root = changed(changed(Root("set", 0), *many), *many)
    assert len(root.node) <= LISTED_BYTES_MAX
    assert root.since(1) == [("users", each) for each in many]
    assert root.since(0) is None
    root = changed(root, *(many * 5), *(f"{each}-more" for each in many * 5))
    assert root.since(root.number - 1) is None
    assert changed(root, "ann").since(root.number) == [("users", "ann")]


@pytest.mark.parametrize("node", [
    b"", b"[]", b'{"version":2,"set":"a","changes":[]}', b'{"version":1,"set":"../x","changes":[]}',
    b'{"version":1,"set":"a","changes":[[1]]}', b'{"version":1,"set":"a","changes":[[1,[2]]]}',
])  # fmt: skip
def test_a_spoilt_or_newer_node_is_not_understood(node: bytes) -> None:
    with pytest.raises(FormUnknown):
        root_from(node, 1)


NAMES = ["ann", ".", "..", "a/b", "ä ö", "a%2Fb", '{"user": null}', "\udc80"]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_has_a_path(name: str) -> None:
    *_, node = paths.fact("set", "users", name).split("/")
    assert node not in (".", "..")
    assert paths.fact_name(node) == name
