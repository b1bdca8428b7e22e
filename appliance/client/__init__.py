"""The client library: producers and consumers of Kafka's original design.

It imports nothing of the broker but the wire protocol and the compiled codecs.
"""

from appliance.client.broker_partition import BrokerPartition
from appliance.client.cluster import Cluster
from appliance.client.consumer_config import ConsumerConfig, FetchConfig
from appliance.client.consumer_connector import ConsumerConnector
from appliance.client.errors import (
    BrokerRefused,
    BrokerUnavailable,
    CommitFailed,
    ConsumerTimeout,
    LoginFailed,
    MessageTooLarge,
    NoBrokers,
    OffsetOutOfRange,
    PartitionUnknown,
    TlsFailed,
    TopicMadeAnew,
    TopicUnknown,
)
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
from appliance.client.simple_consumer import EARLIEST, LATEST, FetchRequest, SimpleConsumer
from appliance.errors import BatchTooLarge

__all__ = [
    "EARLIEST",
    "LATEST",
    "BatchTooLarge",
    "BrokerPartition",
    "BrokerRefused",
    "BrokerUnavailable",
    "CallbackHandler",
    "Cluster",
    "CommitFailed",
    "ConsumerConfig",
    "ConsumerConnector",
    "ConsumerTimeout",
    "Delivery",
    "DeliveryTimedOut",
    "Encoder",
    "EventHandler",
    "FetchConfig",
    "FetchRequest",
    "HookFailed",
    "LoginFailed",
    "MessageTooLarge",
    "NoBrokers",
    "OffsetOutOfRange",
    "Outcome",
    "PartitionUnknown",
    "Partitioner",
    "Producer",
    "ProducerClosed",
    "ProducerConfig",
    "QueueFull",
    "Records",
    "SendFailed",
    "SimpleConsumer",
    "TlsFailed",
    "TopicMadeAnew",
    "TopicUnknown",
]
