"""The brokers' own topics are on all disks before the first fault. Made under faults they may be
on one alone, whose loss is then no fault of replication: nothing of them had counted."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from appliance.topics.topic import OFFSETS
from tests.replication.histories.readers import close, consumer
from tests.replication.histories.site import CREATE_S, Site, until

NAME = "first"  # of a group and a transactional id


def make(site: Site, topic: str) -> None:
    producer = Producer({"bootstrap.servers": site.bootstrap, "transactional.id": NAME})
    producer.init_transactions(CREATE_S)
    reader = consumer(site, NAME)
    place = TopicPartition(topic, 0, 0)
    assert until(lambda: _has_committed(reader, place), CREATE_S), "nobody coordinates groups"
    close(reader)
    _let_commits_count_on_two(site)


def _has_committed(reader: Consumer, place: TopicPartition) -> bool:
    try:
        reader.commit(offsets=[place], asynchronous=False)
    except KafkaException as error:  # the topic is just made: its leader may not lead it yet
        if error.args[0].code() != KafkaError.NOT_COORDINATOR:
            raise
        return False
    return True


def _let_commits_count_on_two(site: Site) -> None:
    """Kafka's default of one would lose them with a disk."""
    entry = ConfigEntry("min.insync.replicas", "2", incremental_operation=AlterConfigOpType.SET)
    wanted = ConfigResource(ConfigResource.Type.TOPIC, OFFSETS, incremental_configs=[entry])
    admin = site.admin()  # held: it answers while it lives
    for done in admin.incremental_alter_configs([wanted]).values():
        done.result(CREATE_S)
