"""Settings of a broker of a cluster that may change while it runs, told to who acts on them.

    leader., follower.replication.throttled.rate            how fast followers get what they lack
    min.insync.replicas, unclean.leader.election.enable     of topics that say nothing
"""

from __future__ import annotations

from appliance.broker.broker import Broker
from appliance.broker.followers_traffic import rates
from appliance.broker.replica_fetchers import ReplicaFetchers
from appliance.broker.replica_roles import ReplicaRoles
from appliance.cluster.cluster import MIN_INSYNC, UNCLEAN, Cluster, TopicDefaults
from appliance.config.dynamic_broker_config import BrokerConfigs


class ClusterSettings:
    def __init__(
        self, broker: Broker, cluster: Cluster, roles: ReplicaRoles, fetchers: ReplicaFetchers
    ) -> None:
        self._broker, self._cluster, self._roles = broker, cluster, roles
        self._fetchers = fetchers
        broker.configs.tell(self._configured)

    def _configured(self, configs: BrokerConfigs) -> None:
        leader, follower = rates(configs)
        self._fetchers.quota.set_rate(follower)
        if self._broker.data_plane is not None:
            self._broker.data_plane.limit_followers(leader)
        defaults = topic_defaults(configs)
        if defaults != self._cluster.defaults:
            self._cluster.defaults_are(defaults)
            self._roles.apply_all()  # what is led here counts by them from now on


def topic_defaults(configs: BrokerConfigs) -> TopicDefaults:
    """What is in force."""
    return TopicDefaults(configs.number(MIN_INSYNC), configs.is_on(UNCLEAN))
