"""Commands that produce and consume messages."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import pyarrow.ipc
import pyarrow.parquet
import pytest
from confluent_kafka import Consumer, Producer

from appliance.admin.schema_registry import WAIT_SECONDS
from appliance.cli.remote import offset_range
from appliance.cli.remote.access import Access
from appliance.cli.remote.api import Api
from appliance.process import progress_bar
from appliance.process.exit_codes import Command, Failed
from appliance.testing import RunningBroker, running_broker
from tests.admin.test_schema_registry import Held, by_schema
from tests.support.registry_schemas import Recording, recorded
from tests.support.registry_servers import RepeatingRegistry
from tests.support.rest import Rest
from tests.support.shell import Shell


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


def test_records_are_decoded_by_the_registry_unless_plain_ones_are_wanted(tmp_path: Path) -> None:
    registry = RepeatingRegistry(recorded("karapace"))
    head = struct.pack(">BI", 0, registry.ids["people-value"])
    good, bad = head + b'{"name": "Ada"}', head + b"{"
    settings = {"schema.registry.url": registry.url}
    with closing(registry), running_broker(tmp_path, settings) as broker:
        shell = Shell(broker.admin)
        shell.out("topic create people")
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for each in (good, bad, bad):
            producer.produce("people", each)
        assert producer.flush(30) == 0
        by_schema(Rest(broker.admin), "people")  # from here on they are known
        told = shell.run("consume people")
        assert told.stdout.splitlines()[0] == '{"name": "Ada"}'
        why = "partition 0 offset 1: the value is not decoded: json, schema "
        assert told.stderr.startswith(why)
        assert len(told.stderr.splitlines()) == 1, "each reason once"
        first = json.loads(shell.out("consume people --json -n 1"))
        assert (first["value"], first["value_schema"]["subject"]) == (
            '{"name": "Ada"}', "people-value")  # fmt: skip
        plain = json.loads(shell.out("consume people --json --plain -n 1"))
        assert (plain["value"], "value_schema" in plain) == (good.decode(), False)


def test_a_slow_registry_is_waited_for(tmp_path: Path) -> None:
    registry = RepeatingRegistry(recorded("karapace"))
    value = struct.pack(">BI", 0, registry.ids["people-value"]) + b'{"name": "Ada"}'
    held = Held(registry)
    settings = {"schema.registry.url": registry.url}
    with closing(registry), running_broker(tmp_path, settings) as broker:
        shell = Shell(broker.admin)
        shell.out("topic create people")
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("people", value)
        assert producer.flush(30) == 0
        slow = threading.Timer(1.5 * WAIT_SECONDS, held.let_go)  # longer than a page waits
        slow.start()
        assert shell.out("consume people") == '{"name": "Ada"}\n'
        slow.join()


def test_names_in_a_registry_do_nothing_to_a_terminal(tmp_path: Path) -> None:
    schema = {"schemaType": "JSON", "schema": '{"title": "\\ud800\\u001b[2J"}'}
    bad = {"schema": '{"type": "\\u001b[2J"}'}
    answers = {"/schemas/ids/1": (200, schema), "/schemas/ids/2": (200, bad),
               "/schemas/ids/1/versions": (200, [{"subject": "\ud800", "version": 1}])}  # fmt: skip
    registry = RepeatingRegistry(Recording({}, answers))
    settings = {"schema.registry.url": registry.url}
    with closing(registry), running_broker(tmp_path, settings) as broker:
        shell = Shell(broker.admin)
        shell.out("topic create people")
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for number in (1, 2):
            producer.produce("people", struct.pack(">BI", 0, number) + b"{}")
        assert producer.flush(30) == 0
        by_schema(Rest(broker.admin), "people")  # from here on they are known
        told = shell.run("consume people --json")
        assert told.exit_code == 0, told.output
        assert json.loads(told.stdout.splitlines()[0])["value_schema"]["subject"] == "?"
        assert "schema 2: " in told.stderr
        assert "\x1b" not in told.output


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
        api = Api(Access(f"127.0.0.1:{server.getsockname()[1]}"))
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
        assert b"was deleted. A new topic of that name" in process.stderr.read()


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
    assert offset_range.time_ms("@2026-11-21T08:30") == 1_795_249_800_000
    assert offset_range.time_ms("@2026-11-21T08:30:00+01:00") == 1_795_246_200_000
    assert abs(offset_range.time_ms("@-2m") - (time.time() - 120) * 1000) < 1000
    for wrong in ("@", "@soon", "@-1y", "@2026-13-01"):
        with pytest.raises(click.BadParameter):
            offset_range.time_ms(wrong)


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


def test_a_file_of_long_lines_is_produced_with_its_progress(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_bar, "LINE_SECONDS", 0.0)
    file = tmp_path / "lines"
    file.write_text(("x" * 60_000 + "\n") * 100)
    shell.out("topic create big -p 1")
    result = shell.run("produce big", str(file))
    assert (result.exit_code, result.stdout) == (0, "100 messages produced\n")
    assert re.search(r"sent: 5\.7 MiB of 5\.7 MiB\n$", result.stderr)
    assert shell.json("topic describe big")["records"] == 100
