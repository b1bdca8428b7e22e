from __future__ import annotations

import re
from pathlib import Path

import pytest

from appliance import config
from appliance.config import Address, LogConfig, SettingInvalid, StorageConfig, load
from appliance.config.access import STANDARD_AUTHORIZER

LIMITS = ("min", "max")  # of what one group may be given


def written(folder: Path, text: str) -> Path:
    path = folder / "appliance.toml"
    path.write_text(text)
    return path


def test_defaults_are_the_table() -> None:
    values = config.values_of(load())
    assert values.pop("default.replication.factor") == 1, "there is no other broker"
    defaults = {name: row.default for name, row in config.settings().items()}
    assert defaults.pop("default.replication.factor") == 3
    assert values == defaults
    assert values["log.segment.bytes"] == 1 << 30
    assert values["log.visibility"] == "durable"


def test_of_a_cluster_the_factor_is_what_is_set() -> None:
    cluster = ["zookeeper.connect=127.0.0.1:2181"]
    for pairs, wanted in (([], 3), (["default.replication.factor=2"], 2)):
        values = config.values_of(load(pairs=[*cluster, *pairs]))
        assert values["default.replication.factor"] == wanted


def test_later_sources_win(tmp_path: Path) -> None:
    file = written(tmp_path, '[log]\nroll.ms = 1\n[data]\ndir = "file"\n')
    environment = {"APPLIANCE_LOG_ROLL_MS": "2", "APPLIANCE_DATA_DIR": "env", "HOME": "/"}
    assert load(file).log.segment_ms == 1
    assert load(file, environment).log.segment_ms == 2
    assert load(file, environment, ["log.roll.ms=3"]).log.segment_ms == 3
    assert load(file, environment, ["data.dir=set"], {"data.dir": "flag"}).data_dir == Path("flag")
    assert load(file, environment, [], {"data.dir": None}).data_dir == Path("env")


def test_toml_may_nest_or_quote_its_keys(tmp_path: Path) -> None:
    file = written(tmp_path, '"log.roll.ms" = 5\n[log.segment]\nbytes = 1_000_000\n')
    assert load(file).log == LogConfig(segment_ms=5, segment_bytes=1_000_000)


def test_no_name_is_the_beginning_of_another() -> None:
    names = sorted(config.settings())
    inside = [(a, b) for a in names for b in names if b.startswith(a + ".")]
    wanted_by_kafka = {"max.connections"}  # with quotes TOML holds it beside the others
    assert {a for a, _ in inside} == wanted_by_kafka, "TOML could not hold both"


def test_a_name_with_quotes_is_held_beside_those_that_begin_with_it(tmp_path: Path) -> None:
    text = '''
    "max.connections" = 500
    max.connections.total = 600
    [listener.name.plaintext]
    "max.connections" = 400
    max.connection.creation.rate = 50
    '''
    found = load(written(tmp_path, text))
    assert (found.network.connections_taken_max, found.network.max_connections) == (500, 600)
    own = {"max.connections": 400, "max.connection.creation.rate": 50}
    assert found.of_listeners == {"PLAINTEXT": own}


def test_names_and_variables_are_unique() -> None:
    count = sum(1 for part in config.PARTS.values() for _ in config.settings_of(part))
    assert len(config.settings()) == count
    assert len({row.environment for row in config.settings().values()}) == count


def test_every_setting_has_its_reason() -> None:
    for row in config.settings().values():
        assert row.reason.endswith("."), row.name
        row.check(row.default)
        has_limit = row.minimum is not None or row.kind not in (int, float)
        assert has_limit, f"{row.name}: what is the least that makes sense?"


def test_the_limits_of_what_a_group_may_have_are_settings_beside_it() -> None:
    """Of each there are three, and the operator's own value is held to the two."""
    for part in (config.ConsumerGroupsConfig, config.ShareGroupsConfig):
        for name, row in config.settings_of(part).items():
            if row.least is None:
                continue
            group, kind, rest = row.name.split(".", 2)
            low, high = (f"{group}.{kind}.{word}.{rest}" for word in LIMITS)
            defaults = (config.settings()[each].default for each in (low, high))
            assert next(defaults) <= row.default <= next(defaults)
            with pytest.raises(SettingInvalid, match=rf"^{row.name}: got .* \({low}, {high}\)"):
                config.load(pairs=[f"{low}={row.default + 1}", f"{high}={row.default + 1}"])
            assert getattr(part(), f"min_{name}") == config.settings()[low].default


def test_every_setting_is_read_by_somebody() -> None:
    package = Path(config.__file__).parents[1]
    sources = [path for end in ("py", "pyx") for path in package.rglob(f"*.{end}")]
    text = "".join(path.read_text() for path in sources)
    rows = [each for part in config.PARTS.values() for each in config.settings_of(part).items()]
    limits = {f"{word}_{name}" for name, row in rows if row.least for word in LIMITS}
    names = {name for name, _ in rows} - limits  # those are read where such a setting is checked
    assert {name for name in names if not re.search(rf"\.{name}\b", text)} == set()


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        ("log.segment.byte=1", "log.segment.byte: no such setting (--set); did you mean"),
        ("log.segment.bytes=60", "got '60' (--set), wanted a whole number from 61 to 2147483647"),
        ("log.segment.bytes=1.5", "got '1.5' (--set), wanted a whole number"),
        ("log.retention.ms=-2", "wanted a whole number of at least -1 (ms)"),
        ("log.retention.ms=9223372036854775808", "wanted a whole number of at least -1 (ms)"),
        ("log.cleaner.min.cleanable.ratio=nan", "got 'nan' (--set), wanted a number from 0 to 1"),
        ("commit.sync=never", "wanted one of 'auto', 'files', 'filesystem'"),
        ("admin.address=8780", "got '8780' (--set), wanted HOST:PORT"),
        ("admin.address=a:65536", "wanted HOST:PORT"),
        ("commit.threads", "--set commit.threads: wanted key=value"),
        ("delete.topic.enable=yes", "got 'yes' (--set), wanted true or false"),
        ("num.partitions=true", "got 'true' (--set), wanted a whole number"),
        ("listeners=", "got '' (--set), wanted [NAME://]HOST:PORT[,...]"),
        ("listen.address=a", "listeners: got 'a' (--set), wanted [NAME://]HOST:PORT[,...]"),
        ("advertised.address=0.0.0.0:9092", "advertised.listeners: got 0.0.0.0:9092, which is"),
        ("advertised.listeners=[::]:9092", "advertised.listeners: got [::]:9092, which is every"),
        ("listeners=a://127.0.0.1:1", "got A://127.0.0.1:1, and A is no protocol; wanted"),
        ("listeners=a b://127.0.0.1:1", "wanted [NAME://]HOST:PORT[,...]"),
        ("listeners=SASL_SSL://127.0.0.1:1", "there is no certificate for it; wanted ssl.key"),
        ("sasl.enabled.mechanisms=GSSAPI,plain", "got GSSAPI, wanted one or more of SCRAM-SHA-512"),
        ("super.users=ann", "super.users: got 'ann' (--set), wanted TYPE:NAME[;...]"),
        ("listener.name.b.node.id=1", "listener.name.b.node.id: no such setting of a listener"),
        ("listener.name.b.sasl.enabled.mechanisms=PLAIN", "listener.name.b.: no listener has this"),
        ("listeners=127.0.0.1:1,10.1.1.1:2", "got PLAINTEXT://10.1.1.1:2, which other machines"),
        ("listeners=box.example:9092", "wanted an address of loopback, or allow.open.listeners="),
        ("advertised.listeners=B://h:1", "got B://h:1, and no listener has this name; wanted"),
        ("listener.security.protocol.map=A", "wanted NAME:PROTOCOL[,...]"),
        ("admin.address=h:65535", "there is no port behind it; wanted export.address with it"),
        ("export.advertised.address=0.0.0.0:1", "export.advertised.address: got 0.0.0.0:1, which"),
    ],
)
def test_a_bad_value_is_named_with_what_was_wanted(pair: str, words: str) -> None:
    with pytest.raises(SettingInvalid) as refused:
        load(pairs=[pair])
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('commit.threads = "4"\n', "commit.threads: got '4' (file"),
        ("commit.threads = true\n", "commit.threads: got True (file"),
        ("commit.thread = 4\n", "commit.thread: no such setting (file"),
        ("commit = \n", "not TOML"),
        ("data.dir = 7\n", "data.dir: got 7 (file"),
        ("delete.topic.enable = 1\n", "delete.topic.enable: got 1 (file"),
    ],
)
def test_a_bad_file_is_named(text: str, words: str, tmp_path: Path) -> None:
    file = written(tmp_path, text)
    with pytest.raises(SettingInvalid) as refused:
        load(file)
    assert words in str(refused.value)
    assert str(file) in str(refused.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingInvalid, match=r"absent\.toml: No such file"):
        load(tmp_path / "absent.toml")


def test_an_unknown_variable_of_ours_is_an_error_and_a_build_flag_is_not() -> None:
    with pytest.raises(SettingInvalid, match=r"environment APPLIANCE_LOG_ROL_MS.*log\.roll\.ms"):
        load(environment={"APPLIANCE_LOG_ROL_MS": "1"})
    load(environment={"APPLIANCE_DEBUG": "1"})


def test_configurations_made_in_python_are_held_to_the_table() -> None:
    with pytest.raises(SettingInvalid, match=r"commit\.sync: got 'no'"):
        StorageConfig(sync="no")
    with pytest.raises(
        SettingInvalid, match=r"at most log\.cleaner\.max\.compaction\.lag\.ms, which is 1"
    ):
        LogConfig(min_compaction_lag_ms=2, max_compaction_lag_ms=1)


@pytest.mark.parametrize("text", ["127.0.0.1:80", "[::1]:0", "localhost:65535"])
def test_an_address_is_read_as_it_is_written(text: str) -> None:
    assert str(Address.parse(text)) == text


def test_a_switch_is_true_or_false_wherever_it_is_written(tmp_path: Path) -> None:
    assert load().topics.may_delete is True
    assert load(written(tmp_path, "delete.topic.enable = false\n")).topics.may_delete is False
    assert load(environment={"APPLIANCE_DELETE_TOPIC_ENABLE": " False"}).topics.may_delete is False
    assert load(pairs=["delete.topic.enable=TRUE"]).topics.may_delete is True
    assert "| `delete.topic.enable` | true | true or false |" in config.as_markdown()


def test_clients_are_told_where_the_broker_came_to_listen() -> None:
    bound = Address("127.0.0.1", 41234)

    def told(*pairs: str) -> str:
        return str(load(pairs=pairs).bound([bound]).advertised_listeners)

    assert told() == "PLAINTEXT://127.0.0.1:41234"
    assert told("advertised.listeners=") == "PLAINTEXT://127.0.0.1:41234"
    every = ("allow.open.listeners=true", "listen.address=0.0.0.0:9092")
    assert told(*every, "advertised.address=box.example:0") == "PLAINTEXT://box.example:41234"
    assert told("advertised.address=[2001:db8::1]:9093") == "PLAINTEXT://[2001:db8::1]:9093"


def test_every_interface_wants_to_know_what_clients_are_told() -> None:
    with pytest.raises(SettingInvalid, match=r"advertised\.listeners=PLAINTEXT://.*:9092$"):
        load(pairs=["allow.open.listeners=true", "listeners=0.0.0.0:9092"])


def test_listeners_have_names_and_addresses_of_their_own(tmp_path: Path) -> None:
    text = """
    listeners = "INSIDE://127.0.0.1:1,outside://[::1]:2"
    listener.security.protocol.map = "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT"
    advertised.listeners = "OUTSIDE://box.example:0"
    """
    found = load(written(tmp_path, text))
    assert str(found.listeners) == "INSIDE://127.0.0.1:1,OUTSIDE://[::1]:2"
    in_fact = found.bound([Address("127.0.0.1", 11), Address("::1", 22)])
    assert str(in_fact.listeners) == "INSIDE://127.0.0.1:11,OUTSIDE://[::1]:22"
    assert str(in_fact.advertised_listeners) == "INSIDE://127.0.0.1:11,OUTSIDE://box.example:22"
    assert found.open_listeners == []


def test_open_listeners_are_those_that_others_reach() -> None:
    found = load(pairs=["allow.open.listeners=true", "listeners=localhost:1,10.1.1.1:2,[::1]:3"])
    assert list(map(str, found.open_listeners)) == ["PLAINTEXT://10.1.1.1:2"]


@pytest.mark.parametrize(
    ("pairs", "wanted"),
    [
        ([], "127.0.0.1:8781"),
        (["admin.address=[::1]:80"], "[::1]:81"),
        (["admin.address=0.0.0.0:0"], "0.0.0.0:0"),
        (["admin.address=0.0.0.0:80", "export.address=10.0.0.1:0"], "10.0.0.1:0"),
    ],
)
def test_bulk_data_is_beside_the_admin_port(pairs: list[str], wanted: str) -> None:
    assert str(config.load(pairs=pairs).export_listens) == wanted


def test_a_listener_with_a_login_may_be_reached_by_others() -> None:
    found = load(pairs=["listeners=SASL_PLAINTEXT://10.1.1.1:1"])
    assert found.open_listeners == []
    assert found.enforces_rights
    with pytest.raises(SettingInvalid, match="wanted an address of loopback, or allow"):
        load(pairs=["listeners=SASL_PLAINTEXT://10.1.1.1:1,10.1.1.1:2"])


def test_rights_are_enforced_where_nobody_logs_in_if_that_is_said() -> None:
    assert not load().enforces_rights
    assert load(pairs=[f"authorizer.class.name={STANDARD_AUTHORIZER}"]).enforces_rights


BEARER = ["sasl.oauthbearer.jwks.endpoint.url=https://id.example/keys",
          "sasl.oauthbearer.expected.issuer=https://id.example",
          "sasl.oauthbearer.expected.audience=kafka"]


@pytest.mark.parametrize("mechanism", ["PLAIN", "OAUTHBEARER"])
def test_a_secret_on_an_open_line_is_refused_unless_it_is_said(mechanism: str) -> None:
    told = ["listeners=A://127.0.0.1:1", "listener.security.protocol.map=A:SASL_PLAINTEXT",
            f"listener.name.a.sasl.enabled.mechanisms=SCRAM-SHA-256,{mechanism}", *BEARER]
    wanted = rf"for A:.*, which is not encrypted.* what {mechanism} send"
    with pytest.raises(SettingInvalid, match=wanted):
        load(pairs=told)
    found = load(pairs=[*told, "listener.name.a.sasl.secrets.without.encryption=true"])
    assert str(found.access_of("A").mechanisms) == f"SCRAM-SHA-256,{mechanism}"


def test_a_listener_has_limits_of_its_own_beside_those_of_all() -> None:
    found = load(pairs=["max.connections=100", "listener.name.plaintext.max.connections=7"])
    assert found.network.connections_taken_max == 100
    assert found.of_listeners == {"PLAINTEXT": {"max.connections": 7}}
    with pytest.raises(SettingInvalid, match=r"max\.connections: got '0'"):
        load(pairs=["listener.name.plaintext.max.connections=0"])


def test_a_listener_has_settings_of_its_own_from_every_source(tmp_path: Path) -> None:
    listeners = "IN_SIDE://127.0.0.1:1,OUT://127.0.0.1:2"
    protocols = "IN_SIDE:SASL_PLAINTEXT,OUT:SASL_PLAINTEXT"
    told = [f"listeners={listeners}", f"listener.security.protocol.map={protocols}"]
    file = written(tmp_path, '[listener.name.out]\n"sasl.enabled.mechanisms" = "scram-sha-256"\n')
    variable = "APPLIANCE_LISTENER_NAME_IN_SIDE_SASL_ENABLED_MECHANISMS"
    found = load(file, {variable: "SCRAM-SHA-512"}, told)
    assert found.access_of("OUT").mechanisms.all == ("SCRAM-SHA-256",)
    assert found.access_of("IN_SIDE").mechanisms.all == ("SCRAM-SHA-512",)
    assert found.access.mechanisms.all == ("SCRAM-SHA-512", "SCRAM-SHA-256")


def test_super_users_may_have_commas() -> None:
    found = load(pairs=["super.users=User:CN=ann,O=us;User:bob"]).access.super_users
    assert found.all == ("User:CN=ann,O=us", "User:bob")


IN_CLUSTER = ["zookeeper.connect=127.0.0.1:1", "zookeeper.format=cluster"]
BY_LOGIN = ["listeners=SASL_PLAINTEXT://127.0.0.1:1", *IN_CLUSTER]
BY_TLS = ["listeners=SSL://127.0.0.1:1", "ssl.keystore.location=a.pem", *IN_CLUSTER]
AS_USER = ["inter.broker.user=a", "inter.broker.password.file=b"]


@pytest.mark.parametrize(
    ("told", "wanted"),
    [
        (["inter.broker.listener.name=B"], "got B, and no listener has this name; wanted one of"),
        (BY_TLS, "the certificates of other brokers cannot be checked; wanted ssl.truststore"),
        (BY_LOGIN, "inter.broker.user: got '', and listener SASL_PLAINTEXT wants a login"),
        ([*BY_LOGIN, AS_USER[0]], "wanted it, and inter.broker.password.file"),
        ([*BY_LOGIN, *AS_USER, "sasl.mechanism.inter.broker.protocol=PLAIN"],
         "got PLAIN, which listener SASL_PLAINTEXT does not offer; wanted one of SCRAM"),
    ],
)  # fmt: skip
def test_brokers_of_a_cluster_can_come_to_each_other(told: list[str], wanted: str) -> None:
    with pytest.raises(SettingInvalid, match=re.escape(wanted)):
        load(pairs=told)
    if "zookeeper.format=cluster" in told:  # one box asks nobody
        load(pairs=[each for each in told if each not in IN_CLUSTER])


def test_the_listener_of_brokers() -> None:
    two = "listeners=A://127.0.0.1:1,B://127.0.0.1:2"
    told = [two, "listener.security.protocol.map=A:PLAINTEXT,B:SASL_PLAINTEXT", *IN_CLUSTER]
    assert load(pairs=told).inter_broker_listener.name == "A"
    found = load(pairs=[*told, "inter.broker.listener.name=B", *AS_USER])
    assert (found.inter_broker_listener.name, found.inter_broker_protocol) == (
        "B", "SASL_PLAINTEXT")  # fmt: skip
