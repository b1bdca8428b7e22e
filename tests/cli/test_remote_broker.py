"""Commands about a running broker, its topics and its settings, and their exit codes."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import click

from appliance.cli.main import main
from appliance.cli.remote import output
from appliance.process import spoken
from tests.support.shell import Shell

# Topics


def test_a_topic_from_its_making_to_its_end(shell: Shell) -> None:
    assert shell.out("topic create orders -p 2 -c retention.ms=60000") == (
        "orders created with 2 partitions\n")
    assert shell.out("topic list").splitlines() == [
        "topic   partitions  records  size  last write   kept",
        "orders           2        0   0 B           -  1 min",
    ]
    shell.out("topic alter orders -p 3 -c retention.ms= -c max.message.bytes=5000")
    described = shell.out("topic describe orders")
    assert "max.message.bytes = 5000, about 4.9 KiB   (topic)\n" in described
    assert "retention.ms" not in described
    assert len(shell.json("topic describe orders")["partition_rows"]) == 3
    shell.out("produce orders", text="a\nb\n")
    refused = shell.run("topic empty orders", text="n\n")
    assert (refused.exit_code, "Delete the 2 records of orders?" in refused.output) == (1, True)
    assert shell.out("topic empty orders --yes") == "orders emptied of 2 records\n"
    shell.out("topic delete orders", text="y\n")
    assert shell.json("topic list")["topics"] == []


def test_several_topics_are_changed_and_deleted_at_once(shell: Shell) -> None:
    for name in ("a", "b"):
        shell.out(f"topic create {name} -c retention.ms=3d")
    told = shell.out("topic alter a b -c retention.ms=12h --dry-run")
    assert told.splitlines()[0] == (
        "a would be changed: retention.ms: 259200000, 3 d -> 43200000, 12 h")
    assert shell.out("topic alter a b -c retention.ms=12h").count(" changed: ") == 2
    wrong = shell.run("topic alter a none -c retention.ms=1h")
    assert (wrong.exit_code, "none refused: there is no topic" in wrong.stderr) == (1, True)
    assert wrong.stdout.startswith("a changed: ")
    assert shell.run("topic alter a b -p 3").exit_code == 2
    refused = shell.run("topic delete a none --yes")  # all of them or, as far as is known, none
    assert (refused.exit_code, len(shell.json("topic list")["topics"])) == (1, 2)
    asked = shell.run("topic delete a b", text="n\n")
    assert "a: 0 records, 0 B\n" in asked.output
    assert "Delete these 2 topics?" in asked.output
    assert shell.out("topic delete a b --yes").splitlines()[0] == "a deleted: 0 records, 0 B"
    assert shell.json("topic list")["topics"] == []


def test_configs_are_told_in_words_and_what_they_mean(shell: Shell) -> None:
    shell.out("topic create orders -c retention.ms=3d")
    lines = shell.out("topic configs orders").splitlines()
    assert lines[0] == "Retention"
    (kept,) = [each.split() for each in lines if each.startswith("  retention.ms ")]
    assert kept == ["retention.ms", "259200000,", "3", "d", "this", "topic", "604800000,", "7", "d"]
    assert lines.index("No effect here") < min(
        number for number, each in enumerate(lines) if "remote.storage" in each)
    told = shell.out("topic configs orders retention.ms")
    assert "Records older than this are deleted" in told
    assert "Accepts a whole number of 64 bits of at least -1; also as 3d" in told
    assert len(shell.json("topic configs")["configs"]) == len(shell.json(
        "topic configs orders")["configs"])  # fmt: skip
    assert shell.run("topic configs orders retention").exit_code == 3


def test_who_reads_and_writes_a_topic(shell: Shell) -> None:
    shell.out("topic create orders")
    assert shell.out("topic consumers orders").startswith("group ")
    assert shell.out("topic producers orders").startswith("producer ")


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


# The broker


def test_settings_are_shown_and_changed(shell: Shell) -> None:
    assert "advertised.listeners" in shell.out("config get listen")
    assert shell.out("config set log.retention.ms=60000") == (
        "log.retention.ms = 60000, 1 min   (changed at run time)\n")
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
        context = click.Context(group)
        for name in group.list_commands(context):
            each = group.get_command(context, name)
            assert each is not None
            found += commands(each) if isinstance(each, click.Group) else [each]
        return found

    own = [each for each in commands(main) if any(one.name == "admin" for one in each.params)]
    remote = [each for each in own if each.name not in ("serve", "settings")]
    assert len(remote) >= 18
    assert all(any(one.name == "as_json" for one in each.params) for each in remote)
