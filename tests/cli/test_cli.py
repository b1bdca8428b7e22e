from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from appliance import __version__, config
from appliance.cli.main import SHELLS, main
from appliance.data_dir.log_dir import LogDir
from appliance.record import _batch_builder


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(main, arguments, env=environment)


def test_settings_prints_what_serve_would_use(tmp_path: Path) -> None:
    file = tmp_path / "appliance.toml"
    file.write_text("log.roll.ms = 5\n")
    result = run("settings", "--config", str(file), "--set", "commit.threads=2")
    assert result.exit_code == 0
    assert "log.roll.ms = 5   (not the default)\n" in result.stdout
    assert "commit.threads = 2   (not the default)\n" in result.stdout
    assert "log.segment.bytes = 1073741824\n" in result.stdout


def test_the_version_is_the_packages() -> None:
    assert run("--version").output == f"appliance, version {__version__}\n"


def test_listeners_may_be_repeated() -> None:
    result = run("settings", "--listen", "127.0.0.1:1", "--listen", "plaintext://[::1]:2")
    assert "\nlisteners = PLAINTEXT://127.0.0.1:1,PLAINTEXT://[::1]:2   (not" in result.output
    result = run("settings", "--listen", "127.0.0.1:1", "--listen", "SASL_SSL://127.0.0.1:2")
    assert "got SASL_SSL://127.0.0.1:2, and there is no certificate for it" in result.output
    assert result.exit_code == 2


def test_settings_as_json(tmp_path: Path) -> None:
    result = run(
        "settings", "--json", "--data-dir", str(tmp_path), APPLIANCE_ADMIN_ADDRESS="[::1]:0"
    )
    values = json.loads(result.stdout)
    assert values["data.dir"] == str(tmp_path)
    assert values["admin.address"] == "[::1]:0"
    assert values["log.cleaner.min.cleanable.ratio"] == 0.5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "log.rol.ms=1"], "no such setting (--set); did you mean log.roll.ms?"),
        (["--set", "log.roll.ms=soon"], "got 'soon' (--set), wanted a whole number"),
        (["--config", "absent.toml"], "file absent.toml: No such file or directory"),
        (["--admin", "here"], "admin.address: got 'here' (flag), wanted HOST:PORT"),
    ],
)
def test_a_wrong_setting_ends_with_code_2(arguments: list[str], words: str) -> None:
    result = run("serve", *arguments)
    assert result.exit_code == 2
    assert words in result.stderr


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A stopped broker's directory: two segments with offsets 0-2 and 3-5."""
    logs = LogDir.open(tmp_path / "data", config.StorageConfig(low_water_bytes=0, reserve_bytes=0))
    log = logs.create("orders", 0)
    rows = [(1_700_000_000_000, b"k%d" % i, b"two words\xff") for i in range(3)]
    log.append_durable(_batch_builder.batch(rows))
    log.roll()
    log.append_durable(_batch_builder.batch(rows, codec="zstd"))
    logs.close()
    return tmp_path / "data"


def test_logs_lists_the_partitions(data: Path) -> None:
    assert "orders-0: offsets 0 to 6, 2 segments, " in run("log", "list", str(data)).stdout
    row = json.loads(run("log", "list", str(data), "--json").stdout)
    assert (row["topic"], row["partition"], row["end_offset"]) == ("orders", 0, 6)


def test_dump_prints_records_from_an_offset_on(data: Path) -> None:
    result = run("log", "dump", str(data), "orders", "0", "--offset", "2", "--max", "2")
    lines = result.stdout.splitlines()
    value = '"two words\\\\xff"'
    start = "timestamp=1700000000000"
    assert lines == [
        f"offset=2 {start} key=k2 value={value} headers=[]",
        f"offset=3 {start} key=k0 value={value} headers=[]",
    ]


def test_dump_prints_batches(data: Path) -> None:
    result = run("log", "dump", str(data), "orders", "0", "--batches", "--json")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(row["base_offset"], row["last_offset"], row["codec"]) for row in rows] == [
        (0, 2, 0),
        (3, 5, 4),
    ]


def test_dump_names_the_partition_that_is_not_there(data: Path) -> None:
    result = run("log", "dump", str(data), "orders", "1")
    assert result.exit_code == 3
    assert "no partition orders-1" in result.stderr


def test_verify_passes_whole_files_and_finds_a_flipped_bit(data: Path) -> None:
    result = run("log", "verify", str(data))
    sizes = sum(each.stat().st_size for each in (data / "orders-0").glob("*.log"))
    said = f"2 segments of 1 partitions, {sizes} B: every batch is as written\n"
    assert (result.exit_code, result.stdout) == (0, said)
    segment = data / "orders-0" / f"{0:020d}.log"
    content = bytearray(segment.read_bytes())
    content[70] ^= 1
    segment.write_bytes(content)
    result = run("log", "verify", str(data), "--json")
    damage, seen = map(json.loads, result.stdout.splitlines())
    assert result.exit_code == 10
    assert (seen["bytes"], seen["damaged"], seen["tails"]) == (sizes, 1, 0)
    assert "1 damaged batches" in run("log", "verify", str(data), "--topic", "orders").stdout
    assert run("log", "verify", str(data), "--topic", "none").exit_code == 3
    assert (damage["segment"], damage["position"], damage["is_tail"]) == (str(segment), 0, False)


@pytest.mark.parametrize("arguments", [["list"], ["verify"], ["dump", "orders", "0"]])
def test_a_directory_in_use_is_not_looked_into(arguments: list[str], data: Path) -> None:
    name, *rest = arguments
    logs = LogDir.open(data, config.StorageConfig(low_water_bytes=0, reserve_bytes=0))
    try:
        result = run("log", name, str(data), *rest)
    finally:
        logs.close()
    assert result.exit_code == 4
    assert "a running broker uses it; stop it first" in result.stderr


def test_a_torn_tail_is_no_damage(data: Path) -> None:
    segment = data / "orders-0" / f"{3:020d}.log"
    segment.write_bytes(segment.read_bytes() + b"torn")
    result = run("log", "verify", str(data))
    assert result.exit_code == 0
    assert "1 torn tails, which the next start cuts" in result.stdout


def commands(group: click.Group, *names: str) -> dict[str, click.Command]:
    found: dict[str, click.Command] = {}
    context = click.Context(group)
    for name in group.list_commands(context):
        each = group.get_command(context, name)
        assert each is not None
        if isinstance(each, click.Group):
            found |= commands(each, *names, name)
        if not isinstance(each, click.Group) or each.invoke_without_command:
            found[" ".join((*names, name))] = each
    return found


def test_asking_a_broker_does_not_load_one() -> None:
    code = (
        "import sys; from appliance.cli.main import main\n"
        "main(['health', '--admin', '127.0.0.1:1'], standalone_mode=False)"
    )
    found = subprocess.run([sys.executable, "-X", "importtime", "-c", code],
                           capture_output=True, text=True, check=False)
    assert "cannot be reached" in found.stderr
    assert "appliance.cli.remote.rest" in found.stderr
    for heavy in ("aiohttp", "appliance.protocol", "argon2", "re2", "kazoo"):
        assert not re.search(rf"\| +{re.escape(heavy)}\b", found.stderr), heavy


def test_a_start_of_the_broker_loads_no_other_command() -> None:
    """A start is imports, and these would be a twentieth of it."""
    code = "import appliance.cli.main, appliance.server, sys; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code],
                           capture_output=True, text=True, check=True)
    modules = set(found.stdout.split())
    loaded = {each for each in modules if each.startswith("appliance.cli.")}
    assert loaded == {"appliance.cli.main", "appliance.cli.settings_options"}
    late = {"prometheus_client", "difflib", "appliance.doctor.examination",
            "appliance.broker.health_of_replicas"}
    assert late & modules == set()


RUNNING = {"serve", "zookeeper"}  # they answer nothing: they run, and log
# Those with a page of their own.
ELSEWHERE = {each for each in commands(main) if each.split()[0] in ("mirror", "export")}


@pytest.mark.parametrize("name", sorted(set(commands(main)) - RUNNING))
def test_every_command_answers_in_json_and_says_what_it_is(name: str) -> None:
    command = commands(main)[name]
    assert "--json" in {flag for each in command.params for flag in each.opts}
    assert command.get_short_help_str(200)


def test_every_command_is_in_the_operations_page() -> None:
    text = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
    rows = re.findall(r"^\| (`appliance .*?) \|", text, re.MULTILINE)
    told = set()
    for row in rows:
        first, *others = re.findall(r"`([^`]+)`", row)
        words = [each for each in first.split()[1:] if each.islower() and each[0] != "-"]
        told |= {" ".join(words), *(" ".join([*words[:-1], each]) for each in others)}
    assert set(commands(main)) - ELSEWHERE - RUNNING - {"settings"} == told


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_is_told_how_to_complete(shell: str) -> None:
    assert f"_APPLIANCE_COMPLETE={shell}_complete" in run("completion", shell).stdout


@pytest.mark.parametrize(
    ("shell", "word", "told"),
    [("bash", "2", "plain,verify\n"), ("zsh", "2", "plain\nverify\n"),
     ("fish", "v", "plain,verify\t")],
)  # fmt: skip
def test_words_are_completed(shell: str, word: str, told: str) -> None:
    words = {"COMP_WORDS": "appliance log v", "COMP_CWORD": word,
             "_APPLIANCE_COMPLETE": f"{shell}_complete"}
    code = "import sys; sys.argv = ['appliance']; from appliance.cli.main import main; main()"
    found = subprocess.run([sys.executable, "-c", code], env={**os.environ, **words},
                           capture_output=True, text=True, check=False)
    assert found.stdout.startswith(told)
    assert found.stdout.count("plain") == 1


@pytest.mark.parametrize("shell", SHELLS)
def test_the_package_installs_the_completion(shell: str) -> None:
    script = (Path(__file__).parents[2] / "packaging" / "deb.sh").read_text().replace("\\\n", "")
    assert re.search(rf'^packaged -m appliance completion {shell} +>"\$tree/', script, re.MULTILINE)
