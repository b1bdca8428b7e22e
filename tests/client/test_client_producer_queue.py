"""The asynchronous producer: its queue, its hooks, and the end of the program."""

from __future__ import annotations

import subprocess
import sys
import time

from appliance.client.outcome import Records
from appliance.client.producer import Producer
from appliance.client.producer_hooks import CallbackHandler, Delivery, EventHandler
from appliance.testing import RunningBroker
from tests.support.consumed import consumed
from tests.support.producing import DEADLINE_S, Heard, config, numbered
from tests.support.zookeeper import eventually

# Asynchronous


def test_records_go_after_the_queue_time_or_a_full_batch(appliance_broker: RunningBroker) -> None:
    heard = Heard()
    settings = {"producer_type": "async", "batch_size": 10}
    long = config(appliance_broker, queue_time=3_600_000, **settings)
    with Producer(long, callback_handler=heard) as producer:
        producer.send("t", numbered(9))
        time.sleep(0.2)
        assert heard.dequeued == []
        producer.send("t", b"9")
        eventually(lambda: len(heard.values(acknowledged=True)) == 10)
        assert heard.dequeued == [10]
        producer.send("t", numbered(25))
        eventually(lambda: len(heard.values(acknowledged=True)) == 30)
        producer.flush()
        assert heard.dequeued == [10, 10, 10, 5]
    heard = Heard()
    begin = time.monotonic()
    with Producer(
        config(appliance_broker, queue_time=300, **settings), callback_handler=heard
    ) as producer:
        producer.send("t", b"alone")
        eventually(lambda: len(heard.outcomes) == 1)
        assert time.monotonic() - begin >= 0.3


def test_records_given_one_by_one_share_batches_and_keep_their_times(
    appliance_broker: RunningBroker,
) -> None:
    heard = Heard()
    waiting = config(appliance_broker, producer_type="async", queue_time=3_600_000)
    with Producer(waiting, callback_handler=heard) as producer:
        begin_ms = time.time() * 1000 - 1
        producer.send("t", b"first", b"k")
        time.sleep(0.05)
        middle_ms = time.time() * 1000
        producer.send("t", [b"second", b"third"], b"k")
        producer.send("t", b"no key")
        producer.flush()
    of_key = [each for each in heard.outcomes if each.records.keys]
    assert list(of_key[0].records)[:3] == [
        (b"k", b"first"),
        (b"k", b"second"),
        (b"k", b"third"),
    ]
    first, second, third, last = consumed(appliance_broker.bootstrap, "t")
    assert [first.value, second.value, third.value] == [b"first", b"second", b"third"]
    assert (last.key, last.value) == (None, b"no key")
    assert begin_ms <= first.timestamp <= middle_ms - 40
    assert second.timestamp == third.timestamp >= int(middle_ms)


def test_hooks_are_called_at_each_stage(appliance_broker: RunningBroker) -> None:
    heard = Heard()
    with Producer(config(appliance_broker, producer_type="async"), callback_handler=heard) as made:
        made.send("t", b"x")
        made.flush()
    assert heard.stages == [
        "before_enqueue",
        "after_enqueue",
        "after_dequeue",
        "before_send",
        "after_send",
        "on_close",
    ]
    heard = Heard()
    with Producer(config(appliance_broker), callback_handler=heard) as producer:
        producer.send("t", b"x")
    assert heard.stages == ["before_send", "after_send"]


class Changing(CallbackHandler):
    def before_enqueue(self, records: Records) -> Records:
        return Records(records.topic, [v + b" enqueued" for v in records.values], records.keys)

    def after_dequeue(self, records: list[Records]) -> list[Records]:
        return [each for each in records if each.values[0][:4] != b"drop"]

    def before_send(self, records: list[Records]) -> list[Records]:
        return [*records, Records("audit", [b"%d" % sum(map(len, records))])]

    def on_close(self) -> list[Records]:
        return [Records("t", [b"the end"])]


def test_hooks_may_change_what_is_sent(appliance_broker: RunningBroker) -> None:
    settings = config(appliance_broker, producer_type="async", queue_time=3_600_000)
    with Producer(settings, callback_handler=Changing()) as producer:
        producer.send("t", b"drop")
        producer.send("t", [b"a", b"b"])
        producer.flush()
    found = consumed(appliance_broker.bootstrap, "t")
    assert [each.value for each in found] == [b"a enqueued", b"b enqueued", b"the end"]
    found = consumed(appliance_broker.bootstrap, "audit")
    assert [each.value for each in found] == [b"2", b"1"]


class OnlyErrors(EventHandler):
    def handle(self, records: list[Records], delivery: Delivery) -> None:
        for each in records:
            errors = [value for value in each.values if value.startswith(b"ERROR")]
            delivery.send([Records("errors", errors)] if errors else [])


def test_an_event_handler_decides_what_is_sent(appliance_broker: RunningBroker) -> None:
    settings = config(appliance_broker, producer_type="async")
    with Producer(settings, event_handler=OnlyErrors()) as producer:
        producer.send("log", [b"ERROR 1", b"fine", b"ERROR 2"])
    found = consumed(appliance_broker.bootstrap, "errors")
    assert [each.value for each in found] == [b"ERROR 1", b"ERROR 2"]


# The end of the program


def test_what_is_queued_is_sent_when_the_program_ends(appliance_broker: RunningBroker) -> None:
    program = f"""
from appliance.client.producer import Producer
from appliance.client.producer_config import ProducerConfig
producer = Producer(ProducerConfig(
    broker_list="{appliance_broker.bootstrap}", producer_type="async", queue_time=3600000
))
producer.send("t", [b"%d" % i for i in range(1000)])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=DEADLINE_S)
    assert (done.returncode, done.stderr) == (0, b"")
    assert [each.value for each in consumed(appliance_broker.bootstrap, "t")] == numbered(1000)
