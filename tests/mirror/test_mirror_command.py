"""The mirror's command, settings and metrics."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from appliance.cli.main import main
from appliance.client.errors import ConfigInvalid, LoginFailed
from appliance.client.setting import as_markdown
from appliance.mirror.config import MirrorConfig
from appliance.mirror.mirror import Mirror
from appliance.mirror.progress import serve_metrics
from appliance.mirror.round import Round
from appliance.testing import RunningBroker
from tests.support.mirroring import make, once, produce

pytestmark = pytest.mark.first

PAGE = Path(__file__).parents[2] / "docs" / "mirror.md"


def test_metrics_tell_position_and_lag(source: RunningBroker, target: RunningBroker) -> None:
    make(source, "t")
    produce(source, *"abc")
    mirror = once(source, target)
    port = serve_metrics(mirror.progress, "127.0.0.1", 0)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        said = answer.read().decode()
    of = '{partition="0",topic="t"}'
    for line in (f"position{of} 3.0", f"lag_records{of} 0.0", f"records_total{of} 3.0",
                 f"lost_offsets_total{of} 0.0", "connected 0.0", "refused 0.0"):
        assert f"\nappliance_mirror_{line}\n" in said, said
    documented = set(re.findall(r"`appliance_mirror_(\w+)`", PAGE.read_text())) | {"bytes_total"}
    assert {each.replace("_created", "_total") for each in
            re.findall(r"\nappliance_mirror_(\w+)", said)} == documented


def test_every_setting_is_in_the_page() -> None:
    assert as_markdown(MirrorConfig) in PAGE.read_text()


@pytest.mark.parametrize(
    ("settings", "fact"),
    [
        ({"topics": "("}, "not a valid regular expression"),
        ({"name": "a/b"}, "name: got 'a/b'"),
        ({"offsets": "guess"}, "wanted one of auto, keep, map"),
        ({"inbox_bytes": 0}, "at least 1"),
    ],
)
def test_a_bad_setting_is_named(settings: dict[str, Any], fact: str) -> None:
    with pytest.raises(ConfigInvalid, match=fact):
        MirrorConfig(**settings)


def test_the_command(source: RunningBroker, target: RunningBroker) -> None:
    make(source, "t")
    produce(source, *"abc")
    run = CliRunner().invoke
    ends = ["--from", source.bootstrap, "--to", target.bootstrap, "--topics", "t"]
    done = run(main, ["mirror", *ends, "--once", "--json", "--set", "offsets=map"])
    assert done.exit_code == 0, done.output
    row = json.loads(done.stdout.splitlines()[-1])
    assert (row["records"], row["lag"]) == (3, 0)
    asked = ["mirror", "translate", "--to", target.bootstrap, "--topic", "t", "--offset", "2"]
    assert run(main, asked).stdout.strip() == "2"
    assert json.loads(run(main, [*asked, "--json"]).stdout)["is_exact"]
    assert "no topic mirror.other.offsets" in run(main, [*asked, "--name", "other"]).output
    assert "missing --to, --topics" in run(main, ["mirror", "--from", "a:1"]).output
    assert "no setting 'x'" in run(main, ["mirror", *ends, "--set", "x=1"]).output
    assert "wanted int" in run(main, ["mirror", *ends, "--set", "inbox_bytes=many"]).output


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        (["--set", "offsets=banana"], "offsets: got 'banana', wanted one of auto, keep, map"),
        (["--offsets", "map", "--set", "offsets=map"], "offsets is given twice"),
        (["--topics", "("], "not a valid regular expression"),
        (["--set", "name=a b"], "name: got 'a b'"),
        (["--set", f"commit_interval_ms={2**31}"], "wanted at most 86400000 ms"),
        (["--set", f"inbox_bytes={2**63}"], "wanted at most"),
        (["--set", f"inbox_bytes={'9' * 5000}"], "wanted int"),
        (["--set", "=x"], "no setting ''"),
        (["--from", "nowhere"], "address 'nowhere': wanted host:port"),
        (["--from", f"a:{'9' * 5000}"], "wanted host:port"),
        (["--metrics", "here"], "address 'here': wanted host:port"),
        (["--report", "here"], "address 'here': wanted host:port"),
        (["--progress-s", "nan"], "Invalid value for '--progress-s'"),
        (["--progress-s", "0"], "Invalid value for '--progress-s'"),
        (["--progress-s", "1e300"], "Invalid value for '--progress-s'"),
    ],
)
def test_a_bad_value_on_the_command_line_is_an_error_in_words(words: list[str], fact: str) -> None:
    ends = {"--from": "127.0.0.1:1", "--to": "127.0.0.1:1", "--topics": "t"}
    given = [part for flag, value in ends.items() if flag not in words for part in (flag, value)]
    done = CliRunner().invoke(main, ["mirror", *given, *words])
    assert isinstance(done.exception, SystemExit), done.exception
    assert fact in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("pair", "fact"),
    [
        ("source.sasl.password=pencil", "use sasl.password.file or sasl.password.env"),
        ("source.ssl.ca=x", "source.ssl.ca: wanted one of security.protocol"),
        ("target.ssl.ca.location=x", "target.ssl_ca_location: not used"),
    ],
)
def test_settings_of_a_side_are_checked(pair: str, fact: str) -> None:
    ends = ["--from", "a:1", "--to", "b:1", "--topics", "t"]
    done = CliRunner().invoke(main, ["mirror", *ends, "--set", pair])
    assert done.exit_code != 0
    assert fact in " ".join(f"{done.output} {done.exception}".split())
    assert "pencil" not in done.output


def test_a_login_that_fails_ends_a_mirror_unless_it_was_connected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = MirrorConfig(source="a:1", target="b:1", topics="t", retry_backoff_ms=1)

    def refused(self: Round) -> None:
        raise LoginFailed("login failed")

    monkeypatch.setattr(Round, "run", refused)
    with pytest.raises(LoginFailed):
        Mirror(settings).run()
    tries: list[int] = []

    def later(self: Round) -> None:
        tries.append(1)
        if len(tries) < 3:
            refused(self)

    monkeypatch.setattr(Round, "run", later)
    mirror = Mirror(settings)
    mirror.progress.has_worked = True
    mirror.run()
    assert mirror.progress.failures == 2
    assert mirror.progress.last_failure == "login failed"
