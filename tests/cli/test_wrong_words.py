"""Words that no option can have: a command ends with one line about them, never with a trace."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from appliance.cli.main import main
from appliance.process.exit_codes import UNREACHABLE

DIGITS = "9" * 5000  # Python refuses to make a number of so many
AWAY = ["--admin", "127.0.0.1:1"]
LATIN = "\udce9"  # a byte of a command line that is not UTF-8


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        (["health", "--admin", "[::1"], "address '[::1' cannot be used"),
        (["health", "--admin", "[]"], "address '[]' cannot be used"),
        (["health", "--admin", DIGITS], "cannot be used"),
        (["health", "--admin", LATIN], "cannot be used"),
        (["health", *AWAY, "--token", "geheim\n"], "the token has characters"),
        (["health", *AWAY, "--token", "geh\u00e9im"], "the token has characters"),
        (["acl", "explain", LATIN, *AWAY], "cannot be reached"),
        (["acl", "explain", "User:a", "--host", LATIN, *AWAY], "cannot be reached"),
        (["topic", "describe", LATIN, *AWAY], "cannot be reached"),
        (["consume", "t", "-n", DIGITS[:30], *AWAY], "Invalid value for '--max'"),
        (["settings", "--data-dir", LATIN], "which is not UTF-8"),
        (["disk", "watch", "--output", ""], "wanted a file"),
        (["disk", "watch", "--every", "nan"], "not in the range"),
        (["cluster", "status", "--zookeeper", "[::1"], "wanted HOST:PORT"),
        (["cluster", "rebalance", "--zookeeper", "127.0.0.1:1", "--throttle", DIGITS],
         "wanted bytes a second"),
        (["settings", "--zookeeper", "[::1"], "zookeeper.connect"),
        (["settings", "--listen", f"a:{DIGITS}"], "listeners"),
        (["settings", "--set", f"segment.bytes={DIGITS}"], "segment.bytes"),
        (["export", "list", "--target", "http://["], "got the target http://["),
        (["export", "run", "--name", LATIN, *AWAY], "which is not UTF-8"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "",
)  # fmt: skip
def test_a_wrong_word_is_said_in_one_line(words: list[str], fact: str, tmp_path: Path) -> None:
    done = CliRunner(env={"HOME": str(tmp_path)}).invoke(main, words)
    assert isinstance(done.exception, SystemExit), done.exception
    told = " ".join(done.output.split())
    assert fact in told
    assert "geh" not in told.replace("--token: everybody", "")
    if "cannot be" in fact or "token has" in fact:
        assert done.exit_code == UNREACHABLE
