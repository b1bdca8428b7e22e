"""What commands at a cluster say and ask for, without one."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from appliance.cli.cluster import cluster
from appliance.cli.main import main
from appliance.cli.moves import options
from appliance.cli.moves.carrying_out import missing, shown, throttled_replicas
from appliance.cli.moves.commands import last
from appliance.cluster.plans import Move, Placed

MOVES = [
    Move(Placed("t", 0, (1, 2), 100), (3, 2)),
    Move(Placed("t", 1, (2, 1), 10), (2, 1)),
    Move(Placed("u", 4, (1,), 5), (1, 2, 3)),
]


def test_a_throttle_names_who_gives_and_who_gets() -> None:
    assert throttled_replicas(MOVES) == {
        "t": {
            "leader.replication.throttled.replicas": "0:1,0:2,1:2,1:1",
            "follower.replication.throttled.replicas": "0:3",
        },
        "u": {
            "leader.replication.throttled.replicas": "4:1",
            "follower.replication.throttled.replicas": "4:2,4:3",
        },
    }


def test_what_is_missing_is_what_nobody_has_copied() -> None:
    assert missing(MOVES[0], {}) == 100
    assert missing(MOVES[0], {(3, "t", 0): 30}) == 70
    assert missing(MOVES[0], {(3, "t", 0): 130}) == 0, "what was appended meanwhile"
    assert missing(MOVES[1], {}) == 0
    assert missing(MOVES[2], {(2, "u", 4): 5}) == 5


def test_who_is_empty_comes_last() -> None:
    """An unclean election takes the first that lives."""
    assert last((3, 1, 2), 3, 3) == (1, 2, 3)
    assert last((3, 1, 2), 3, 4) == (1, 2, 4)
    assert last((3,), 3, 4) == (4,)


def test_long_lists_are_cut() -> None:
    assert shown([f"{each}" for each in range(12)]).endswith("8; 9 and 2 more")


@pytest.mark.parametrize(
    ("is_sure", "can_ask", "reply", "code", "said"),
    [
        (True, False, "", 0, "done\n"),
        (False, False, "y\n", 4, "Error: Move it? Nobody can be asked here, so it wants --yes\n"),
        (False, True, "n\n", 1, "Error: nothing was done\n"),
        (False, True, "y\n", 0, "done\n"),
    ],
    ids=["said before", "a script", "no", "yes"],
)
def test_what_moves_records_asks_whoever_can_be_asked(
    monkeypatch: pytest.MonkeyPatch,
    is_sure: bool,
    can_ask: bool,
    reply: str,
    code: int,
    said: str,
) -> None:
    @click.command
    def asking() -> None:
        options.agreed("Move it?", is_sure)
        click.echo("done")

    monkeypatch.setattr(options, "can_ask", lambda: can_ask)
    found = CliRunner().invoke(asking, input=reply)
    assert (found.exit_code, found.output.endswith(said)) == (code, True), found.output


def test_all_commands_that_move_records_can_be_told_not_to_ask() -> None:
    moving = {name for name, each in cluster.commands.items()
              if any("--throttle" in one.opts for one in each.params)}  # fmt: skip
    asking = {name for name, each in cluster.commands.items()
              if any("--yes" in one.opts for one in each.params)}  # fmt: skip
    assert moving == asking == {"decommission", "rebalance", "replace", "replicate"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["status"], "wanted --zookeeper HOST:PORT"),
        ([], "wanted --zookeeper HOST:PORT"),
        (["--zookeeper", "zk", "status"], "got 'zk', wanted HOST:PORT"),
        (["decommission", "1", "--throttle", "5X"], "got '5X', wanted bytes a second"),
        (["decommission", "x"], "'x' is not a valid integer"),
        (["status", "--zookeeper", "z:1", "--set", "x=y"], "--set x: wanted one of"),
    ],
)
def test_a_wrong_command_line_is_told(words: list[str], said: str) -> None:
    found = CliRunner().invoke(main, ["cluster", *words])
    assert (found.exit_code, said in found.output) == (2, True), found.output
