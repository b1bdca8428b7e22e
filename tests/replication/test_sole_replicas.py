"""ZooKeeper is away: what only this broker has is led on, what others have, too, is not."""

from __future__ import annotations

from pathlib import Path

from tests.support.embedded_cluster import embedded_cluster, eventually
from tests.support.rest import Rest
from tests.support.zookeeper import serving_zookeeper_in


def test_a_sole_replica_is_led_on_while_zookeeper_is_away(tmp_path: Path) -> None:
    with (
        serving_zookeeper_in(tmp_path / "zookeeper") as server,
        embedded_cluster(server, "/sole", tmp_path / "cluster") as cluster,
    ):
        one = cluster.start(1)
        cluster.start(2)
        cluster.create(1, "of-two", factor=2)
        cluster.stop(2)
        cluster.until_known()
        cluster.create(1, "alone")
        for topic in ("alone", "of-two"):
            assert cluster.produce(1, topic, ["a"]) == []
        server.stop()
        eventually(lambda: "it leads only what no other broker has" in health(one.admin))
        assert cluster.produce(1, "alone", ["b"]) == []
        assert cluster.values(1, "alone", 2) == ["a", "b"]
        (fault,) = cluster.produce(1, "of-two", ["b"], **{"message.timeout.ms": 1500})
        assert fault is not None

        server.start()
        server.wait_until_serving()
        eventually(lambda: "session" not in health(one.admin))
        for topic in ("alone", "of-two"):
            assert cluster.produce(1, topic, ["c"]) == []
        assert cluster.values(1, "alone", 3) == ["a", "b", "c"]


def health(admin: str) -> str:
    return str(Rest(admin).raw("GET", "/healthz").body)
