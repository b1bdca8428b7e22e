"""All brokers of this one's ZooKeeper path as one, over REST: what `appliance cluster` tells."""

from __future__ import annotations

import asyncio

from appliance.admin.rights import DESCRIBE_CLUSTER
from appliance.admin.route import Call, NotServing, get
from appliance.config import NO_FILE
from appliance.config.zookeeper import url_of
from appliance.errors import Refused
from appliance.process.tls_client import CaFileInvalid, ca_in
from appliance.protocol import ErrorCode
from appliance.zookeeper.cluster_health import AdminPages, ClusterHealth, Word, cluster_health


class ClusterAnswer(ClusterHealth):
    zookeeper: str | None  # its servers and the path; None: there is none
    node_id: int  # of the broker that tells it


async def get_cluster(call: Call) -> ClusterAnswer:
    process = call.process
    config, health, path = process.config, process.health(), process.registration
    if path is None:
        return {"status": health.status, "brokers": [], "topics": [], "zookeeper": None,
                "node_id": config.node_id}  # fmt: skip
    brokers = await asyncio.to_thread(path.brokers)
    pages = await asyncio.to_thread(pages_of, call)
    own = {config.node_id: Word(health.status, health.reasons)}
    found = await cluster_health(brokers, pages, own)
    return {**found, "zookeeper": str(config.zookeeper.ensemble), "node_id": config.node_id}


def pages_of(call: Call) -> AdminPages:
    """Others are taken to have theirs where this one has its own."""
    process, config = call.process, call.process.config.zookeeper
    if process.admin_address is None:
        raise NotServing("the admin pages are not open")
    try:
        ca = "" if config.cluster_ca_file == NO_FILE else ca_in(config.cluster_ca_file)
    except CaFileInvalid as error:
        raise Refused(ErrorCode.INVALID_CONFIG, f"cluster.ca.file: {error}") from error
    return AdminPages(
        process.admin_address.port, "https" if process.config.admin_has_tls else "http",
        dict(map(url_of, config.cluster_pages.all)), ca,
    )  # fmt: skip


ROUTES = [
    get(
        "/cluster",
        get_cluster,
        ClusterAnswer,
        "All brokers below this one's path in ZooKeeper: their health, by their own word, and "
        "their topics as one.",
        rights=(DESCRIBE_CLUSTER,),
        version=lambda _: None,  # one look for all who ask
    ),
]
