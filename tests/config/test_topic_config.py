"""What a client may write in a topic's config, what is kept of it, and what it makes of a log."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from appliance.config import LogConfig, settings, topic_config
from appliance.config.config_key import (
    VALUE_SIZE_MAX,
    ConfigChange,
    ConfigInvalid,
    ConfigKey,
    ConfigOperation,
    ConfigType,
    changed,
    text_of,
)
from appliance.config.topic_config import KEYS, find, readable, to_log_config, validate
from appliance.errors import RequestInvalid

BROKER = LogConfig()
LONG_MAX = "9223372036854775807"

# As a broker of Kafka 4.3.0 answered DescribeConfigs: type, default.
KAFKA = {
    "cleanup.policy": (7, "delete"),
    "compression.gzip.level": (3, "-1"),
    "compression.lz4.level": (3, "9"),
    "compression.type": (2, "producer"),
    "compression.zstd.level": (3, "3"),
    "delete.retention.ms": (5, "86400000"),
    "file.delete.delay.ms": (5, "60000"),
    "flush.messages": (5, LONG_MAX),
    "flush.ms": (5, LONG_MAX),
    "follower.replication.throttled.replicas": (7, ""),
    "index.interval.bytes": (3, "4096"),
    "leader.replication.throttled.replicas": (7, ""),
    "local.retention.bytes": (5, "-2"),
    "local.retention.ms": (5, "-2"),
    "max.compaction.lag.ms": (5, LONG_MAX),
    "max.message.bytes": (3, "1048588"),
    "message.timestamp.after.max.ms": (5, "3600000"),
    "message.timestamp.before.max.ms": (5, LONG_MAX),
    "message.timestamp.type": (2, "CreateTime"),
    "min.cleanable.dirty.ratio": (6, "0.5"),
    "min.compaction.lag.ms": (5, "0"),
    "min.insync.replicas": (3, "1"),
    "preallocate": (1, "false"),
    "remote.log.copy.disable": (1, "false"),
    "remote.log.delete.on.disable": (1, "false"),
    "remote.storage.enable": (1, "false"),
    "retention.bytes": (5, "-1"),
    "retention.ms": (5, "604800000"),
    "segment.bytes": (3, "1073741824"),
    "segment.index.bytes": (3, "10485760"),
    "segment.jitter.ms": (5, "0"),
    "segment.ms": (5, "604800000"),
    "unclean.leader.election.enable": (1, "false"),
}
# The page cache is not what an acknowledgement means here, so a power cut is bounded by default.
OURS = {
    "flush.messages": (5, "10000"),
    "flush.ms": (5, "1000"),
    "mirror.source": (2, ""),
    "visibility": (2, "durable"),
}


def test_the_table_is_kafkas_and_two_of_ours() -> None:
    assert len(KAFKA) == 33
    found = {key.name: (key.type, key.default) for key in KEYS.values()}
    assert found == {**KAFKA, **OURS}


@pytest.mark.parametrize("key", KEYS.values(), ids=lambda key: key.name)
def test_a_key_is_whole(key: ConfigKey) -> None:
    assert text_of(key.parse(key.default)) == key.default
    assert key.doc.endswith(".")
    assert (key.field == "") == ("No effect" in key.doc or key.name in (
        "compression.type", "min.insync.replicas", "remote.storage.enable",
            "unclean.leader.election.enable", "leader.replication.throttled.replicas",
            "follower.replication.throttled.replicas"))
    if key.synonym and key.field:
        assert settings()[key.synonym].default == getattr(BROKER, key.field)


def test_every_setting_of_a_log_is_a_topics_config_but_one() -> None:
    fields = {key.field for key in KEYS.values() if key.field}
    assert set(vars(BROKER)) - fields == {"producer_id_expiration_ms"}


def test_a_value_is_kept_in_its_one_form() -> None:
    given = {"retention.ms": " 007 ", "preallocate": "TRUE",
             "cleanup.policy": " compact , delete ,", "min.cleanable.dirty.ratio": "1",
             "compression.type": "zstd ",
             "segment.bytes": "+61"}
    assert validate(given, BROKER).kept == {
        "retention.ms": "7", "preallocate": "true", "cleanup.policy": "compact,delete",
        "min.cleanable.dirty.ratio": "1.0", "compression.type": "zstd", "segment.bytes": "61"}


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("retention.ms", "-2", "retention.ms: got '-2', wanted a whole number of 64 bits of at "
         "least -1"),
        ("retention.ms", "9223372036854775808", "wanted a whole number of 64 bits"),
        ("retention.ms", "1_000", "got '1_000'"),
        ("retention.ms", "\u0661", "got '\u0661'"),
        ("retention.ms", "1.5", "got '1.5'"),
        ("retention.ms", "", "got ''"),
        ("retention.ms", None, "got null"),
        ("retention.ms", "9" * 4000, "got '999"),
        ("segment.bytes", "2147483648", "wanted a whole number of 32 bits from 61 to 2147483647"),
        ("segment.bytes", "0", "got '0'"),
        ("min.insync.replicas", "2147483648", "of 32 bits from 1 to 2147483647"),
        ("min.cleanable.dirty.ratio", "nan", "wanted a number from 0 to 1"),
        ("min.cleanable.dirty.ratio", "1.01", "wanted a number from 0 to 1"),
        ("min.cleanable.dirty.ratio", "half", "got 'half'"),
        ("preallocate", "yes", "wanted true or false"),
        ("cleanup.policy", "delete,shrink", "wanted a list of 'compact', 'delete'"),
        ("compression.type", "brotli", "wanted one of 'uncompressed', 'gzip'"),
        ("compression.gzip.level", "0", "wanted one of '-1', '1'"),
        ("compression.lz4.level", "18", "from 1 to 17"),
        ("leader.replication.throttled.replicas", "0:1,*", "wanted a list that matches"),
        ("remote.storage.enable", "true", "wanted one of 'false': there is no remote storage"),
        ("message.timestamp.type", "createtime", "wanted one of 'CreateTime', 'LogAppendTime'"),
        ("visibility", "page-cache", "wanted one of 'durable', 'appended'"),
        ("dummy.doesntexist", "x", "dummy.doesntexist: there is no such topic config"),
        ("leader.replication.throttled.replicas", "0:1," * 9000, "wanted at most 4096 bytes"),
    ],
)
def test_a_bad_value_is_named_with_what_was_wanted(
    name: str, text: str | None, words: str
) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        validate({"segment.ms": "5", name: text}, BROKER)
    assert words in str(refused.value)
    assert refused.value.kafka_code == 40


def test_the_longest_value_can_be_shown() -> None:
    text = ",".join(f"{i}:1" for i in range(5000))[:VALUE_SIZE_MAX].rpartition(",")[0]
    assert validate({"follower.replication.throttled.replicas": text}, BROKER).kept


@pytest.mark.parametrize("text", ["*", "", "0:1", "0:1, 5:2"])
def test_throttled_replicas_are_kept_though_nothing_is_throttled(text: str) -> None:
    name = "leader.replication.throttled.replicas"
    config = validate({name: text}, BROKER).kept
    assert config == {name: text.replace(" ", "")}
    assert to_log_config(config, BROKER) == BROKER


# What it makes of a log


def test_a_topics_own_value_is_over_the_brokers() -> None:
    broker = LogConfig(retention_ms=5, segment_ms=6)
    made = to_log_config({"retention.ms": "7", "cleanup.policy": "compact,delete"}, broker)
    assert made == replace(broker, retention_ms=7, cleanup_policy="compact,delete")


def test_every_legal_text_of_a_log_key_reaches_its_field() -> None:
    for key in KEYS.values():
        if key.field:
            value = key.parse(key.default)
            wanted = ",".join(value) if isinstance(value, list) else value
            assert getattr(to_log_config({key.name: key.default}, BROKER), key.field) == wanted


def test_no_policy_cleans_nothing() -> None:
    made = to_log_config({"cleanup.policy": "", "retention.ms": "1"}, BROKER)
    assert (made.cleanup_policy, made.retention_ms, made.retention_bytes) == ("delete", -1, -1)


@pytest.mark.parametrize(
    ("configs", "broker"),
    [
        ({"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"}, BROKER),
        ({"max.compaction.lag.ms": "1"}, LogConfig(min_compaction_lag_ms=2)),
        ({"min.compaction.lag.ms": "3"}, LogConfig(max_compaction_lag_ms=2)),
    ],
)
def test_a_compaction_lag_has_its_ends_in_order(
    configs: dict[str, str | None], broker: LogConfig
) -> None:
    with pytest.raises(ConfigInvalid, match=r"min\.compaction\.lag\.ms: got .*max\.compaction"):
        validate(configs, broker)


def test_a_log_whose_config_is_not_understood_deletes_nothing() -> None:
    stored = {"segment.ms": "9", "retention.forever": "yes", "retention.ms": "soon"}
    (configs, log), faults = readable(stored, BROKER)
    assert configs == {"segment.ms": "9", "cleanup.policy": ""}
    assert log == to_log_config(configs, BROKER)
    assert [each.split(":")[0] for each in faults] == ["retention.forever", "retention.ms"]
    (configs, log), faults = readable({"segment.ms": "9"}, BROKER)
    assert (configs, log.segment_ms, faults) == ({"segment.ms": "9"}, 9, [])


# Changes

SET, DELETE, APPEND, SUBTRACT = ConfigOperation


def after(configs: dict[str, str], *changes: tuple[str, int, str | None]) -> dict[str, str]:
    return changed(
        configs, [ConfigChange(*each) for each in changes], find, lambda key: key.default
    )


def test_changes_are_set_deleted_appended_and_subtracted() -> None:
    assert after({"a": "1"}, ("segment.ms", SET, " 5")) == {"a": "1", "segment.ms": "5"}
    assert after({"segment.ms": "5"}, ("segment.ms", DELETE, None)) == {}
    assert after({}, ("segment.ms", DELETE, "ignored")) == {}
    policy = "cleanup.policy"
    assert after({}, (policy, APPEND, "compact")) == {policy: "delete,compact"}
    assert after({policy: "compact"}, (policy, APPEND, "compact")) == {policy: "compact"}
    assert after({policy: ""}, (policy, APPEND, "compact")) == {policy: "compact"}
    assert after({policy: "compact,delete"}, (policy, SUBTRACT, "delete")) == {policy: "compact"}
    assert after({}, (policy, SUBTRACT, "compact,delete")) == {policy: ""}


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (("segment.ms", APPEND, "5"), ConfigInvalid, "APPEND is for lists, its type is LONG"),
        (("segment.ms", SUBTRACT, "5"), ConfigInvalid, "SUBTRACT is for lists"),
        (("cleanup.policy", APPEND, "shrink"), ConfigInvalid, "got 'shrink'"),
        (("segment.ms", SET, None), RequestInvalid, "got null"),
        (("segment.ms", 4, "5"), RequestInvalid, "operation 4, wanted one of 0"),
        (("none.such", DELETE, None), ConfigInvalid, "no such topic config"),
    ],
)
def test_a_bad_change_is_named_and_changes_nothing(
    change: tuple[str, int, str | None], error: type[Exception], words: str
) -> None:
    configs = {"retention.ms": "1"}
    with pytest.raises(error) as refused:
        after(configs, ("flush.ms", SET, "7"), change)
    assert words in str(refused.value)
    assert configs == {"retention.ms": "1"}


def test_one_config_is_changed_once() -> None:
    with pytest.raises(RequestInvalid, match="changed twice"):
        after({}, ("segment.ms", SET, "1"), ("segment.ms", DELETE, None))


def test_appending_and_subtracting_are_as_sets_that_keep_their_order() -> None:
    rng, name = random.Random(7), "follower.replication.throttled.replicas"
    configs: dict[str, str] = {}
    model: list[str] = []
    for _ in range(500):
        some = [f"{rng.randrange(6)}:1" for _ in range(rng.randrange(1, 3))]
        operation = rng.choice([APPEND, SUBTRACT])
        configs = after(configs, (name, operation, ",".join(some)))
        for each in some:
            if operation == APPEND and each not in model:
                model.append(each)
            elif operation == SUBTRACT and each in model:
                model.remove(each)
        assert configs[name] == ",".join(model)


def test_types_are_numbered_as_on_the_wire() -> None:
    assert [each.name for each in sorted(ConfigType)] == [
        "BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD"]
    assert topic_config.KEYS["visibility"].synonym == "log.visibility"
