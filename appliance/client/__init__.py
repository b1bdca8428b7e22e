"""The client library: producers and consumers of Kafka's original design.

It imports nothing of the broker but the wire protocol and the compiled codecs.
"""

from appliance.client.broker_partition import BrokerPartition
from appliance.client.cluster import Cluster
from appliance.client.consumer_config import ConsumerConfig, FetchConfig
from appliance.client.consumer_connector import ConsumerConnector
from appliance.client.errors import TopicMadeAnew
from appliance.client.outcome import (
    DeliveryTimedOut,
    HookFailed,
    Outcome,
    ProducerClosed,
    QueueFull,
    Records,
    SendFailed,
)
from appliance.client.producer import Producer
from appliance.client.producer_config import ProducerConfig
from appliance.client.producer_hooks import (
    CallbackHandler,
    Delivery,
    Encoder,
    EventHandler,
    Partitioner,
)
from appliance.client.simple_consumer import EARLIEST, LATEST, SimpleConsumer

__all__ = [
    "EARLIEST",
    "LATEST",
    "BrokerPartition",
    "CallbackHandler",
    "Cluster",
    "ConsumerConfig",
    "ConsumerConnector",
    "Delivery",
    "DeliveryTimedOut",
    "Encoder",
    "EventHandler",
    "FetchConfig",
    "HookFailed",
    "Outcome",
    "Partitioner",
    "Producer",
    "ProducerClosed",
    "ProducerConfig",
    "QueueFull",
    "Records",
    "SendFailed",
    "SimpleConsumer",
    "TopicMadeAnew",
]
