"""What each command at a cluster takes: the ZooKeeper, the login, JSON."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from appliance.cli.moves.seen_cluster import SeenCluster, explaining
from appliance.client.errors import ConfigInvalid
from appliance.client.security_config import of_pairs
from appliance.config import Ensemble
from appliance.process.exit_codes import FAILED, REFUSED, Failed

PLACE = "zookeeper"  # of the group, for all commands below it
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
DIGITS_MAX = 15
UNITS = {"": 1, "K": KIB, "M": MIB, "G": GIB}


def ensemble(ctx: click.Context, param: click.Parameter, text: str | None) -> Ensemble | None:
    if text is None:
        return None
    try:
        return Ensemble.parse(text)
    except ValueError:
        wanted = "HOST:PORT[,HOST:PORT...][/PATH]"
        raise click.BadParameter(f"got {text!r}, wanted {wanted}") from None


def rate(ctx: click.Context, param: click.Parameter, text: str | None) -> int | None:
    if text is None:
        return None
    digits = text.rstrip("KMG")
    unit = text[len(digits) :]
    is_number = digits.isdecimal() and len(digits) <= DIGITS_MAX
    if not is_number or unit not in UNITS or int(digits) < 1:
        wanted = "bytes a second, as in 5000000 or 50M"
        raise click.BadParameter(f"got {text!r}, wanted {wanted}")
    return int(digits) * UNITS[unit]


THROTTLE = click.option(
    "--throttle", callback=rate, metavar="RATE",
    help="At most so many bytes a second at each broker, as in 50M.",
)
YES = click.option("--yes", "is_sure", is_flag=True, help="Do not ask.")
DRY_RUN = click.option("--dry-run", is_flag=True, help="Only show what would be moved.")


def agreed(question: str, is_sure: bool) -> None:
    """Before records are moved, or given up. Where nobody can be asked it was said before, or it
    is not done: a script that waits for an answer would hang, or take some other text for it."""
    if is_sure:
        return
    if not can_ask():
        raise Failed(f"{question} Nobody can be asked here, so it wants --yes", REFUSED)
    if not click.confirm(question, err=True):
        raise Failed("nothing was done", FAILED)


def can_ask() -> bool:
    return sys.stdin.isatty()


def at_a_cluster(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command gets `cluster` and `as_json`."""

    @wraps(command)
    def with_cluster(
        place: Ensemble | None,
        pairs: tuple[str, ...],
        listener: str,
        as_json: bool,
        **options: Any,
    ) -> Any:
        place = place or click.get_current_context().meta.get(PLACE)
        if place is None:
            raise click.UsageError("wanted --zookeeper HOST:PORT[,HOST:PORT...][/PATH]")
        try:
            security = of_pairs(pairs, "--set ")
        except ConfigInvalid as error:
            raise click.UsageError(str(error)) from error
        with explaining(), SeenCluster(place, security, listener.upper()) as cluster:
            return command(cluster=cluster, as_json=as_json, **options)

    found = click.option("--json", "as_json", is_flag=True, help="One JSON object.")(with_cluster)
    found = click.option(
        "--listener", default="", metavar="NAME",
        help="The brokers' listener to come by; without it the first of security.protocol.",
    )(found)
    found = click.option(
        "--set", "pairs", multiple=True, metavar="KEY=VALUE",
        help="Login and TLS at the brokers, as in security.protocol=SASL_SSL; docs/client.md.",
    )(found)
    return click.option(
        "--zookeeper", "place", callback=ensemble, metavar="ENSEMBLE",
        envvar="APPLIANCE_ZOOKEEPER_CONNECT",
        help="HOST:PORT[,HOST:PORT...][/PATH], as zookeeper.connect of the brokers.",
    )(found)
