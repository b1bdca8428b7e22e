"""Commands that ask a running broker, as a person types them."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import click
import pyarrow.ipc
import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from appliance.cli.main import main
from appliance.cli.remote import output, where
from appliance.cli.remote.api import Api
from appliance.process import progress, spoken
from appliance.process.command import Command, Failed
from appliance.testing import RunningBroker, running_broker
from tests.support.rest import Rest


class Shell:
    def __init__(self, admin: str, token: str = "") -> None:
        self.admin, self.token = admin, token

    def run(self, line: str, *more: str, text: str = "") -> Result:
        environment = {"APPLIANCE_ADMIN_ADDRESS": self.admin}
        if self.token:
            environment["APPLIANCE_TOKEN"] = self.token
        return CliRunner().invoke(main, [*line.split(), *more], input=text, env=environment)

    def out(self, line: str, *more: str, text: str = "") -> str:
        result = self.run(line, *more, text=text)
        assert result.exit_code == 0, result.output
        return str(result.stdout)

    def json(self, line: str, *more: str, text: str = "") -> Any:
        return json.loads(self.out(f"{line} --json", *more, text=text))


@pytest.fixture
def shell(appliance_broker: RunningBroker) -> Shell:
    return Shell(appliance_broker.admin)


# Topics

def test_a_topic_from_its_making_to_its_end(shell: Shell) -> None:
    assert shell.out("topic create orders -p 2 -c retention.ms=60000") == (
        "orders created with 2 partitions\n")
    assert shell.out("topic list").splitlines() == [
        "topic   partitions  records  size  last write    kept",
        "orders           2        0   0 B           -  60.0 s",
    ]
    shell.out("topic alter orders -p 3 -c retention.ms= -c max.message.bytes=5000")
    described = shell.out("topic describe orders")
    assert "max.message.bytes = 5000   (topic)\n" in described
    assert "retention.ms" not in described
    assert len(shell.json("topic describe orders")["partition_rows"]) == 3
    shell.out("produce orders", text="a\nb\n")
    refused = shell.run("topic empty orders", text="n\n")
    assert (refused.exit_code, "Delete the 2 records of orders?" in refused.output) == (1, True)
    assert shell.out("topic empty orders --yes") == "orders emptied of 2 records\n"
    shell.out("topic delete orders", text="y\n")
    assert shell.json("topic list")["topics"] == []


# Exit codes

def test_exit_codes_tell_what_went_wrong(shell: Shell) -> None:
    for line, code, words in (
        ("topic describe none", 3, "there is no topic 'none'"),
        ("group describe none", 3, "not found"),
        ("topic create a/b", 1, "is not a topic name"),
        ("topic create t -c x", 2, "wanted NAME=VALUE"),
        ("consume t -o there", 2, "wanted earliest, latest"),
        ("health --admin 127.0.0.1:1", 5, "127.0.0.1:1 cannot be reached"),
        ("config set data.dir=x", 1, "data.dir"),
    ):
        result = shell.run(line)
        assert (result.exit_code, words in result.stderr) == (code, True), (line, result.output)
        assert "Traceback" not in result.output
    shell.out("topic create twice")
    assert shell.run("topic create twice").exit_code == 4


def test_health_has_an_exit_code(shell: Shell, tmp_path: Path) -> None:
    assert shell.out("health").startswith("Healthy: accepting writes")
    assert shell.json("health")["status"] == "ok"
    command = [sys.executable, "-m", "appliance", "serve", "--data-dir", str(tmp_path),
               "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
               "--set", f"storage.low.water.bytes={1 << 60}", "--set", "storage.reserve.bytes=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True) as process:
        assert process.stdout is not None
        admin = re.search(r"admin=(\S+)", process.stdout.readline())
        assert admin is not None
        try:
            sick = Shell(admin[1]).run("health")
            assert sick.exit_code == 10
            assert sick.stdout.startswith("Failing: the disk is full: ")
        finally:
            process.send_signal(signal.SIGTERM)


def test_the_broker_on_one_screen(shell: Shell) -> None:
    shell.out("topic create orders")
    screen = shell.out("status")
    assert re.search(r"^topics +1 with 1 partition$", screen, re.MULTILINE)
    assert re.search(r"^disk +\S+ \w+ free of ", screen, re.MULTILINE)


# Messages

def test_what_is_consumed_can_be_produced_again(shell: Shell) -> None:
    shell.out("topic create orders")
    shell.out("topic create copy")
    shell.out("produce orders -K :", text="a:1\nb:2:3\nno key\n")
    shell.out("produce orders --json-lines",
              text='{"key": "c", "value": {"id": 7}, "headers": {"type": "x"}}\n')
    assert shell.out("consume orders") == '1\n2:3\nno key\n{"id": 7}\n'
    lines = shell.out("consume orders --json")
    assert json.loads(lines.splitlines()[-1])["headers"] == {"type": "x"}
    assert shell.out("produce copy --json-lines", text=lines) == "4 messages produced\n"
    strip = [{**json.loads(each), "timestamp_ms": 0} for each in lines.splitlines()]
    again = shell.out("consume copy --json").splitlines()
    assert [{**json.loads(each), "timestamp_ms": 0} for each in again] == strip


def test_bytes_come_back_as_they_were(shell: Shell, tmp_path: Path) -> None:
    """Also those that are no text, and headers of the same name."""
    shell.out("topic create orders")
    shell.out("topic create copy")
    file = tmp_path / "lines"
    file.write_bytes(b"\xff\xfe\r\nplain\n")
    assert shell.out("produce orders", str(file)) == "2 messages produced\n"
    headers = [{"name": "a", "value": "1"}, {"name": "a", "value": "AP8=", "is_base64": True}]
    line = json.dumps({"key": "/w==", "key_is_base64": True, "value": "", "headers": headers})
    assert shell.out("produce orders --json-lines", text=line) == "1 message produced\n"
    told = [json.loads(each) for each in shell.out("consume orders --json").splitlines()]
    assert (told[0]["value"], told[0]["value_is_base64"]) == ("//4=", True)
    assert "value_is_base64" not in told[1]
    assert (told[2]["key"], told[2]["key_is_base64"], told[2]["headers"]) == ("/w==", True, headers)
    shell.out("produce copy --json-lines", text=shell.out("consume orders --json"))
    again = [json.loads(each) for each in shell.out("consume copy --json").splitlines()]
    assert [{**each, "timestamp_ms": 0} for each in again] == [
        {**each, "timestamp_ms": 0} for each in told
    ]
    assert shell.out("consume orders -K ::").splitlines() == ["fffe", "plain", "ff::"]


def test_a_file_may_be_one_message(shell: Shell, tmp_path: Path) -> None:
    shell.out("topic create orders")
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"{name}\nof two lines\n")
    files = [str(tmp_path / name) for name in ("a", "b")]
    assert shell.out("produce orders --whole", *files) == "2 messages produced\n"
    assert shell.json("consume orders -o -1")["value"] == "b\nof two lines\n"


def test_a_topic_that_is_not_there_is_not_made_by_a_misspelt_name(shell: Shell) -> None:
    refused = shell.run("produce ordres", text="1\n")
    assert (refused.exit_code, refused.stderr) == (
        3, "Error: there is no topic 'ordres' (unknown_topic_or_partition). "
        "`appliance topic create ordres` creates it\n")  # fmt: skip
    shell.out("topic create orders")
    refused = shell.run("produce orders -p 7", text="1\n")
    assert (refused.exit_code, "wanted 0 to 0" in refused.stderr) == (3, True)
    assert "topic create" not in refused.stderr


def test_messages_are_a_file_in_every_format(shell: Shell) -> None:
    shell.out("topic create orders")
    shell.out("produce orders", text="".join(f"{number}\n" for number in range(10)))
    lines = shell.out("consume orders --format csv -o 4:6").splitlines()
    assert lines[0].startswith("partition,offset,timestamp_ms,key,")
    assert [each.split(",")[1] for each in lines[1:]] == ["4", "5"]
    for form, read in (("arrow", read_arrow), ("parquet", pyarrow.parquet.read_table)):
        for more, values in (("-o -2", [b"8", b"9"]), ("-o 5:5", []), ("-o latest", [])):
            data = shell.run(f"consume orders --format {form} {more}").stdout_bytes
            assert read(io.BytesIO(data)).column("value").to_pylist() == values, (form, more)
    refused = shell.run("consume orders --format csv -n 5")
    assert (refused.exit_code, "--format csv does not go with -n" in refused.stderr) == (2, True)


def read_arrow(file: io.BytesIO) -> Any:
    return pyarrow.ipc.open_stream(file).read_all()


def test_a_group_goes_on_where_it_stopped(shell: Shell) -> None:
    shell.out("topic create orders -p 2")
    for partition in ("0", "1"):
        shell.out("produce orders -p", partition, text="".join(f"{each}\n" for each in range(5)))
    assert shell.out("consume orders --group nightly -n 7").split() == [*"01234", *"01"]
    offsets = shell.json("group describe nightly")["offsets"]
    assert [(each["partition"], each["committed"]) for each in offsets] == [(0, 5), (1, 2)]
    assert shell.out("consume orders --group nightly -n 0") == ""
    # what a filter leaves out was looked at too
    assert shell.out("consume orders --group nightly -f", "offset = 3").split() == ["3"]
    assert shell.out("consume orders --group nightly") == ""
    shell.out("produce orders -p 0", text="new\n")
    assert shell.out("consume orders --group nightly -p 1") == ""
    assert shell.out("consume orders --group nightly") == "new\n"
    assert shell.json("group list")["groups"][0]["lag_records"] == 0
    for more in ("--follow", "-o 3"):
        refused = shell.run(f"consume orders --group nightly {more}")
        assert (refused.exit_code, "--group does not go with" in refused.stderr) == (2, True)


def test_a_group_that_others_read_for_is_left_to_them(
    shell: Shell, appliance_broker: RunningBroker
) -> None:
    shell.out("topic create orders")
    shell.out("produce orders", text="1\n")
    reader = Consumer({"bootstrap.servers": appliance_broker.bootstrap, "group.id": "billing",
                       "auto.offset.reset": "earliest"})
    try:
        reader.subscribe(["orders"])
        assert reader.consume(1, 20)
        refused = shell.run("consume orders --group billing")
        assert (refused.exit_code, refused.stdout) == (4, "")
        assert "stop them first" in refused.stderr
    finally:
        reader.close()


@pytest.mark.parametrize(
    "line", ["status", "topic list", "consume orders", "settings", "completion bash", "consume "
             "orders --format csv", "--help", "topic create --help"])
def test_who_has_read_enough_is_not_told_of_a_broken_pipe(shell: Shell, line: str) -> None:
    shell.out("topic create orders")
    shell.out("produce orders", text="1\n2\n")
    command = f"{sys.executable} -m appliance {line} | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True,
                          env={**os.environ, "APPLIANCE_ADMIN_ADDRESS": shell.admin})
    assert done.stderr == ""


def test_a_connection_that_breaks_is_no_reader_that_left(capfd: Any) -> None:
    @click.command(cls=Command)
    def send() -> None:
        raise BrokenPipeError(errno.EPIPE, "of a socket")

    with pytest.raises(SystemExit) as ended:
        send(args=[])
    assert (ended.value.code, "of a socket" in capfd.readouterr().err) == (1, True)


def test_an_answer_that_breaks_off_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        told = threading.Thread(target=break_off, args=(server,))
        told.start()
        api = Api(f"127.0.0.1:{server.getsockname()[1]}", None)
        with pytest.raises(Failed, match="broke off") as failed, api.open("/x") as answer:
            answer.read()
        told.join()
    assert failed.value.exit_code == 5


def break_off(server: socket.socket) -> None:
    client, _ = server.accept()
    with client:
        client.recv(65536)
        client.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel")


def test_a_value_that_is_followed_is_whole(shell: Shell, appliance_broker: RunningBroker) -> None:
    shell.out("topic create orders")
    with subprocess.Popen(
        [sys.executable, "-m", "appliance", "consume", "orders", "--follow", "-n", "2", "--admin",
         appliance_broker.admin], stdout=subprocess.PIPE) as process:  # fmt: skip
        assert process.stdout is not None
        shell.out("produce orders", text="begin\n")
        assert process.stdout.readline() == b"begin\n"
        shell.out("produce orders", text="x" * 100_000 + "\n")
        assert len(process.stdout.readline()) == 100_001
        assert process.wait(20) == 0


def test_following_says_that_the_topic_was_deleted(
    shell: Shell, appliance_broker: RunningBroker
) -> None:
    shell.out("topic create orders")
    with subprocess.Popen(
        [sys.executable, "-m", "appliance", "consume", "orders", "--follow", "--admin",
         appliance_broker.admin], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:  # fmt: skip
        assert process.stdout is not None
        shell.out("produce orders", text="begin\n")
        assert process.stdout.readline() == b"begin\n"
        shell.out("topic delete orders --yes")
        shell.out("topic create orders")
        assert process.wait(20) == 1
        assert process.stderr is not None
        assert b"was deleted. If one of its name is there" in process.stderr.read()


def test_files_are_produced_line_by_line(shell: Shell, tmp_path: Path) -> None:
    shell.out("topic create orders")
    file = tmp_path / "lines"
    file.write_text("".join(f"line {number}\n" for number in range(1200)))
    assert shell.json("produce orders", str(file)) == {"produced": 1200}
    assert shell.out("consume orders") == file.read_text()


def test_the_language_of_offsets(shell: Shell) -> None:
    shell.out("topic create orders")
    shell.out("produce orders", text="".join(f"{number}\n" for number in range(10)))
    for text, wanted in (("earliest", range(10)), ("-3", range(7, 10)), ("4", range(4, 10)),
                         ("4:6", range(4, 6)), ("latest", ()), ("@-1h", range(10)),
                         ("@-2h:@-1h", ()), ("@2001-01-01", range(10)), ("@2999-01-01", ())):
        found = shell.out("consume orders -o", text).split()
        assert found == [str(each) for each in wanted], text
    assert shell.out("consume orders -n 2").split() == ["0", "1"]
    assert shell.run("consume orders -n -1").exit_code == 2
    assert shell.out("consume orders --filter", "offset = 7").split() == ["7"]


def test_times_in_words() -> None:
    assert where.time_ms("@2026-11-21T08:30") == 1_795_249_800_000
    assert where.time_ms("@2026-11-21T08:30:00+01:00") == 1_795_246_200_000
    assert abs(where.time_ms("@-2m") - (time.time() - 120) * 1000) < 1000
    for wrong in ("@", "@soon", "@-1y", "@2026-13-01"):
        with pytest.raises(click.BadParameter):
            where.time_ms(wrong)


def test_following_prints_what_is_there_and_what_comes(
    shell: Shell, appliance_broker: RunningBroker
) -> None:
    shell.out("topic create orders")
    shell.out("produce orders", text="before\n")
    command = [sys.executable, "-m", "appliance", "consume", "orders", "--follow", "-n", "3",
               "--admin", appliance_broker.admin]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "PYTHONUNBUFFERED": "1"}) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "before\n"
        shell.out("produce orders", text="one\ntwo\n")
        assert process.stdout.read() == "one\ntwo\n"
        assert process.wait(20) == 0


# Groups

def test_a_group_is_described_with_partitions_that_have_no_commit(
    shell: Shell, appliance_broker: RunningBroker
) -> None:
    shell.out("topic create orders --partitions 2")
    shell.out("produce orders --partition 1", text="x\n" * 10)
    settings = {"bootstrap.servers": appliance_broker.bootstrap, "group.id": "readers",
                "auto.offset.reset": "earliest", "enable.auto.commit": False}  # fmt: skip
    consumer = Consumer(settings)
    consumer.subscribe(["orders"])
    assert consumer.consume(1, 20)
    said = shell.out("group describe readers")
    consumer.close()
    assert re.search(r"orders +1 +- +10 +10", said)
    assert "Stable, 1 member, 10 records behind\n" in said
    assert "no commit yet in 2 partitions: their 10 records count" in said


def test_a_group_is_reset_after_a_look(shell: Shell, appliance_broker: RunningBroker) -> None:
    shell.out("topic create orders")
    shell.out("produce orders", text="x\n" * 10)
    settings = {"bootstrap.servers": appliance_broker.bootstrap, "group.id": "readers"}
    consumer = Consumer(settings)
    consumer.commit(offsets=[TopicPartition("orders", 0, 4)], asynchronous=False)
    consumer.close()
    assert "readers" in shell.out("group list")
    assert re.search(r"orders +0 +4 +10 +6", shell.out("group describe readers"))
    dry = shell.out("group reset readers earliest --dry-run")
    assert re.search(r"orders +0 +4 +0", dry)
    assert shell.json("group describe readers")["offsets"][0]["committed"] == 4
    for to, wanted in (("latest", 10), ("-3", 7), ("+1", 8), ("2", 2), ("@-1h", 0)):
        shell.out("group reset readers --yes --", to)
        found = shell.json("group describe readers")["offsets"][0]["committed"]
        assert found == wanted, to
    shell.out("group reset copy group:readers --yes --topic orders")
    assert shell.run("group reset readers somewhere").exit_code == 2
    nothing = shell.run("group reset nobody earliest --yes")
    assert (nothing.exit_code, "has no committed offsets" in nothing.stderr) == (3, True)
    shell.out("group delete readers --yes")
    assert shell.run("group describe readers").exit_code == 3


# The broker

def test_settings_are_shown_and_changed(shell: Shell) -> None:
    assert "listen.address" in shell.out("config get listen")
    assert shell.out("config set log.retention.ms=60000") == (
        "log.retention.ms = 60000   (changed at run time)\n")
    assert shell.json("config get log.retention.ms")[0]["value"] == "60000"


def test_a_bundle_overwrites_nothing(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "bundle.zip"
    assert str(file) in shell.out("bundle", str(file))
    assert file.read_bytes()[:2] == b"PK"
    assert shell.run("bundle", str(file)).exit_code == 1


def test_nothing_of_a_name_moves_the_terminal() -> None:
    assert output.cell("a\x1b[2Jb\n") == "a\\x1b[2Jb\\n"
    assert output.cell("ä") == "ä"
    assert spoken.size(1536) == "1.5 KiB"
    assert spoken.duration(7200) == "2.0 h"


def test_every_command_has_json() -> None:
    def commands(group: click.Group) -> list[click.Command]:
        found: list[click.Command] = []
        for each in group.commands.values():
            found += commands(each) if isinstance(each, click.Group) else [each]
        return found

    own = [each for each in commands(main) if any(one.name == "admin" for one in each.params)]
    remote = [each for each in own if each.name not in ("serve", "settings")]
    assert len(remote) >= 18
    assert all(any(one.name == "as_json" for one in each.params) for each in remote)


# Access rules

def test_rules_are_added_listed_and_removed(shell: Shell) -> None:
    added = shell.run("acl add --principal User:anna --operation read --topic orders")
    assert (added.exit_code, added.stdout) == (0, "added; rules now: 1\n")
    assert "not enforced yet" in added.stderr
    assert shell.run("acl list --json").stderr == ""
    shell.out("acl add --principal User:* --operation all --cluster --deny --host 10.0.0.1")
    shell.out("acl add --principal User:anna --operation write --topic or --prefixed")
    lines = [line.split() for line in shell.out("acl list").splitlines()]
    assert lines == [
        ["principal", "may", "operation", "resource", "name", "pattern", "host"],
        ["User:anna", "allow", "write", "topic", "or", "prefixed", "*"],
        ["User:anna", "allow", "read", "topic", "orders", "literal", "*"],
        ["User:*", "deny", "all", "cluster", "kafka-cluster", "literal", "10.0.0.1"],
    ]
    told = shell.json("acl list")
    assert (told["is_enforced"], len(told["acls"])) == (False, 3)
    dry = shell.out("acl remove --principal User:anna --dry-run")
    assert dry.endswith("would remove 2\n")
    kept = shell.run("acl remove --principal User:anna", text="n\n")
    assert (kept.exit_code, len(shell.json("acl list")["acls"])) == (1, 3)
    removed = shell.json("acl remove --principal User:anna --topic orders --yes")
    assert [each["operation"] for each in removed["acls"]] == ["read"]
    assert len(shell.json("acl list")["acls"]) == 2


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("acl add --principal User:a --operation read", 2, "missing --topic"),
        ("acl add --operation read --topic t", 2, "missing --principal"),
        ("acl add --principal User:a --topic t", 2, "missing --operation"),
        ("acl add --principal User:a --operation read --topic t --group g", 2, "wanted one of"),
        ("acl add --principal User:a --operation reed --topic t", 1, "wanted one of all, read"),
        ("acl add --principal anna --operation read --topic t", 1, "wanted TYPE:NAME"),
        ("acl remove --yes", 2, "which would match all rules"),
        ("acl remove --topic none --yes", 3, "appliance acl list"),
    ],
)
def test_a_rule_that_is_none(shell: Shell, line: str, code: int, words: str) -> None:
    result = shell.run(line)
    assert (result.exit_code, words in result.stderr) == (code, True), result.stderr


def test_rules_are_those_that_kafka_clients_see(
    shell: Shell, appliance_broker: RunningBroker
) -> None:
    shell.out("acl add --principal User:anna --operation describe_configs --topic or --prefixed")
    admin = AdminClient({"bootstrap.servers": appliance_broker.bootstrap})
    every = AclBindingFilter(ResourceType.ANY, None, ResourcePatternType.ANY, None, None,
                             AclOperation.ANY, AclPermissionType.ANY)
    (found,) = admin.describe_acls(every).result(20)
    assert (found.restype, found.name, found.resource_pattern_type, found.principal, found.host,
            found.operation, found.permission_type) == (
        ResourceType.TOPIC, "or", ResourcePatternType.PREFIXED, "User:anna", "*",
        AclOperation.DESCRIBE_CONFIGS, AclPermissionType.ALLOW)


def test_a_file_of_long_lines_is_produced_with_its_progress(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    file = tmp_path / "lines"
    file.write_text(("x" * 60_000 + "\n") * 100)
    shell.out("topic create big -p 1")
    result = shell.run("produce big", str(file))
    assert (result.exit_code, result.stdout) == (0, "100 messages produced\n")
    assert re.search(r"sent: 5\.7 MiB of 5\.7 MiB\n$", result.stderr)
    assert shell.json("topic describe big")["records"] == 100


# Users

PASSWORD = "correct horse battery"


@pytest.fixture
def admin_shell(appliance_broker: RunningBroker) -> Shell:
    """With a token, in a broker whose first user is ada."""
    rest = Rest(appliance_broker.admin)
    setup = {"token": appliance_broker.setup_secret, "name": "ada", "password": PASSWORD}
    cookie = rest.ask("POST", "/setup", setup).headers["Set-Cookie"].partition(";")[0]
    ada = Rest(appliance_broker.admin, {"Cookie": cookie})
    made = ada.post("/tokens", {"name": "cli", "role": "admin"})
    return Shell(appliance_broker.admin, made["token"])


def test_users_tokens_and_sessions(admin_shell: Shell) -> None:
    shell = admin_shell
    made = shell.out("user create vera --role operator --no-messages --password", PASSWORD)
    assert made == "vera created, operator\n"
    rows = [line.split() for line in shell.out("user list").splitlines()]
    assert rows[0] == ["user", "role", "messages", "logged", "in", "created"]
    assert [row[:4] for row in rows[1:]] == [["ada", "admin", "yes", "1"],
                                             ["vera", "operator", "no", "0"]]
    twice = f"{PASSWORD} 2\n{PASSWORD} 2\n"
    shell.out("user change vera --role viewer --messages --password", text=twice)
    vera = {each["name"]: each for each in shell.json("user list")["users"]}["vera"]
    assert (vera["role"], vera["may_read"]) == ("viewer", True)
    logged_in = Rest(shell.admin).ask("POST", "/login", {"name": "vera", "password": twice[:23]})
    assert logged_in.status == 204
    assert [each["name"] for each in shell.json("user sessions")["sessions"]] == ["ada", "vera"]
    assert "vera  127.0.0.1" in shell.out("user sessions")
    assert shell.out("user logout vera") == "vera is logged out\n"
    assert [each["name"] for each in shell.json("user sessions")["sessions"]] == ["ada"]
    assert shell.run("user change vera").exit_code == 2
    assert shell.out("user delete vera --yes") == "vera deleted\n"
    gone = shell.run("user delete vera --yes")
    assert (gone.exit_code, "there is no user 'vera'" in gone.stderr) == (3, True)
    token = shell.out("user token job --days 3").strip()
    assert Shell(shell.admin, token).json("topic list")["total"] == 0
    rows = [line.split() for line in shell.out("user tokens").splitlines()]
    assert [row[:3] for row in rows[1:]] == [["cli", "admin", "yes"], ["job", "viewer", "yes"]]
    assert shell.out("user revoke job --yes") == "job revoked\n"
    refused = Shell(shell.admin, token).run("topic list")
    assert (refused.exit_code, "APPLIANCE_TOKEN" in refused.stderr) == (4, True)


def test_a_lost_password_is_set_anew_when_the_broker_is_stopped(
    admin_shell: Shell, appliance_broker: RunningBroker
) -> None:
    line = f"user reset ada --data-dir {appliance_broker.data_dir} --password"
    runs = admin_shell.run(line, "another password")
    assert (runs.exit_code, "appliance user change ada --password" in runs.stderr) == (4, True)
    appliance_broker.stop()
    unknown = admin_shell.run(line.replace("ada", "eve", 1), "another password")
    assert (unknown.exit_code, "there are: ada" in unknown.stderr) == (3, True)
    assert admin_shell.run(line, "short").exit_code == 1
    assert admin_shell.out(line, "another password") == "ada has a new password\n"
    with running_broker(appliance_broker.data_dir) as again:
        rest = Rest(again.admin)
        for password, status in (("another password", 204), (PASSWORD, 401)):
            body = {"name": "ada", "password": password}
            assert rest.ask("POST", "/login", body).status == status


def test_no_catalog_is_made_where_there_is_none(tmp_path: Path) -> None:
    line = f"user reset ada --data-dir {tmp_path} --password"
    result = Shell("127.0.0.1:1").run(line, "another password")
    assert (result.exit_code, "catalog.db does not exist" in result.stderr) == (3, True)
    assert list(tmp_path.iterdir()) == []
