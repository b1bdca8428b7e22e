"""`appliance mirror`, and `appliance mirror translate`."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from appliance.client.connection import Address
from appliance.client.errors import ConfigInvalid
from appliance.client.security_config import of_pairs
from appliance.mirror import offset_map
from appliance.mirror.config import MirrorConfig
from appliance.mirror.errors import LastingRefusal, OffsetNotMapped, TopicsRefused
from appliance.mirror.mirror import Mirror
from appliance.mirror.progress import serve_metrics
from appliance.mirror.reporter import Reporter
from appliance.mirror.site import Site, TopicPartition
from appliance.process import event_log
from appliance.process.exit_codes import REFUSED, Command, CommandGroup, Failed
from appliance.process.option_types import FiniteRange
from appliance.process.tls_client import ca_in

log = event_log.named("mirror")

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

OF_A_MIRROR = {
    each.name: each for each in dataclasses.fields(MirrorConfig) if "setting" in each.metadata
}


def option(flag: str, name: str, **facts: Any) -> Callable[[Decorated], Decorated]:
    """An option for a setting, with the default and the help of the table."""
    field = OF_A_MIRROR[name]
    row = field.metadata["setting"]
    if row.choices:
        facts["type"] = click.Choice(row.choices)
    facts |= {"default": field.default, "show_default": field.default != ""}
    return click.option(flag, name, help=row.reason.replace("`", ""), **facts)


@click.group(cls=CommandGroup, invoke_without_command=True)
@option("--from", "source", metavar="HOST:PORT[,...]")
@option("--to", "target", metavar="HOST:PORT[,...]")
@option("--topics", "topics", metavar="REGEX")
@option("--groups", "groups", metavar="REGEX")
@option("--name", "name")
@option("--delivery", "delivery")
@option("--offsets", "offsets")
@option("--sync-configs/--no-sync-configs", "sync_configs")
@option("--commit-interval-ms", "commit_interval_ms", type=int)
@option("--map-retention-ms", "map_retention_ms", type=int)
@option("--refresh-interval-ms", "refresh_interval_ms", type=int)
@click.option(
    "--set",
    "pairs",
    multiple=True,
    metavar="KEY=VALUE",
    help="Any other setting of docs/mirror.md; repeatable.",
)
@click.option("--once", is_flag=True, help="End when all records of the source are mirrored.")
@click.option("--metrics", metavar="HOST:PORT", help="Serve metrics for Prometheus here.")
@click.option(
    "--report",
    metavar="HOST:PORT",
    help="Admin address that shows the progress, usually the target's, or its URL if it speaks "
    "TLS; with the token in APPLIANCE_TOKEN, and the authorities in APPLIANCE_CA_FILE.",
)
@click.option(
    "--progress-s",
    default=10.0,
    show_default=True,
    type=FiniteRange(0.1, 86400),
    help="Interval of progress lines.",
)
@click.option("--json", "as_json", is_flag=True, help="Progress as JSON, one object per line.")
@click.pass_context
def mirror(
    context: click.Context,
    /,
    pairs: tuple[str, ...],
    once: bool,
    metrics: str | None,
    report: str | None,
    progress_s: float,
    as_json: bool,
    **settings: Any,
) -> None:
    """Copy topics from one cluster to another, batches as they are, until SIGTERM or SIGINT.

    An appliance as target keeps the offsets of the source. For an Apache Kafka target `translate`
    prints the offset in the target."""
    if context.invoked_subcommand:
        return
    config = config_of(context, settings, pairs)
    event_log.to_stderr()
    made = Mirror(config)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: made.stop())
    if metrics:
        address = Address.parse(metrics)
        port = serve_metrics(made.progress, address.host, address.port)
        log.info("metrics", address=f"{address.host}:{port}")
    reporter = reporter_of(report, made) if report else None
    if reporter:
        reporter.report("no link", progress_s)  # not yet; the answer may be that it is to pause
    shown = Shown(made, progress_s, as_json, reporter)
    try:
        made.run(once)
    except (LastingRefusal, TopicsRefused) as error:
        raise Failed(str(error), REFUSED) from error
    finally:
        shown.stop()
    left = made.progress.totals()["refused"]
    if once and left:
        raise Failed(f"not mirrored: {TopicsRefused(left)}", REFUSED)


def config_of(
    context: click.Context, settings: dict[str, Any], pairs: Iterable[str]
) -> MirrorConfig:
    """What the options say, and `--set`, which has the settings of options too."""
    try:
        more = all_parsed(pairs)
        for name in settings.keys() & more.keys():
            if context.get_parameter_source(name) == ParameterSource.COMMANDLINE:
                raise click.UsageError(f"{name} is given twice, by its option and by --set {name}")
        found = {**settings, **more}
        missing = [flag for flag, name in FLAGS.items() if name in settings and not found[name]]
        if missing:
            raise click.UsageError(f"missing {', '.join(missing)}")
        return MirrorConfig(**found)
    except ConfigInvalid as error:
        raise click.UsageError(str(error)) from error


def reporter_of(address: str, made: Mirror) -> Reporter:
    ca_file = os.environ.get("APPLIANCE_CA_FILE")
    ca = ca_in(ca_file) if ca_file else ""
    return Reporter(address, os.environ.get("APPLIANCE_TOKEN"), made, ca)


SIDES = ("source", "target")
FLAGS = {"--from": "source", "--to": "target", "--topics": "topics"}


def all_parsed(pairs: Iterable[str]) -> dict[str, Any]:
    """Values by the names of `MirrorConfig`."""
    made: dict[str, Any] = {}
    of_sides: dict[str, list[str]] = {}
    for pair in pairs:
        side, dot, rest = pair.partition(".")
        if dot and side in SIDES:
            of_sides.setdefault(side, []).append(rest)
        else:
            name, value = parsed(pair)
            if name in made:
                raise click.UsageError(f"--set {name}: given twice, wanted once")
            made[name] = value
    for side, given in of_sides.items():
        made[f"{side}_security"] = of_pairs(given, f"--set {side}.")
    return made


def parsed(pair: str) -> tuple[str, Any]:
    name, _, text = pair.partition("=")
    if name not in OF_A_MIRROR:
        raise click.UsageError(f"--set {pair}: there is no setting {name!r}")
    kind: type = type(getattr(MirrorConfig, name))
    try:
        return name, {"true": True, "false": False}[text] if kind is bool else kind(text)
    except (KeyError, ValueError):
        raise click.UsageError(f"--set {pair}: wanted {kind.__name__}") from None


class Shown:
    """Prints the progress at intervals, and once at the end."""

    def __init__(
        self, made: Mirror, seconds: float, as_json: bool, reporter: Reporter | None
    ) -> None:
        self._mirror, self._progress = made, made.progress
        self._seconds, self._as_json = seconds, as_json
        self._reporter = reporter
        self._before = (time.monotonic(), 0, 0)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mirror-progress", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over.wait(self._seconds):
            self._show()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()
        self._show()

    @property
    def _state(self) -> str:
        if self._is_over.is_set():
            return "ended"
        if self._mirror.is_suspended:
            return "paused"
        return "mirroring" if self._progress.is_connected else "no link"

    def _show(self) -> None:
        totals = self._progress.totals()
        if self._as_json:
            click.echo(json.dumps({**totals, "rows": self._progress.rows()}))
        else:
            click.echo(self._line(totals), err=True)
        sys.stdout.flush()
        if self._reporter:
            self._reporter.report(self._state, self._seconds)

    def _line(self, totals: dict[str, Any]) -> str:
        then, records, size = self._before
        now = time.monotonic()
        self._before = now, totals["records"], totals["bytes"]
        rate = (totals["records"] - records) / max(now - then, 1e-9)
        mbs = (totals["bytes"] - size) / max(now - then, 1e-9) / 1e6
        more = f", {totals['lost_offsets']:,} offsets lost" if totals["lost_offsets"] else ""
        more += f", refused: {', '.join(totals['refused'])}" if totals["refused"] else ""
        return (
            f"{self._state}: {totals['partitions']} partitions, {totals['records']:,} records, "
            f"{rate:,.0f} a second, {mbs:.1f} MB/s, lag {totals['lag']:,}{more}"
        )


@mirror.command(cls=Command)
@click.option("--to", "target", required=True, metavar="HOST:PORT[,...]", help="The target.")
@click.option("--name", default=MirrorConfig.name, show_default=True, help="Name of the mirror.")
@click.option("--topic", required=True)
@click.option("--partition", default=0, show_default=True)
@click.option("--offset", required=True, type=int, help="Offset in the source.")
@click.option("--set", "pairs", multiple=True, metavar="KEY=VALUE", help="As of the mirror.")
@click.option("--json", "as_json", is_flag=True, help="As a JSON object.")
@click.pass_context
def translate(
    context: click.Context,
    /,
    target: str,
    name: str,
    topic: str,
    partition: int,
    offset: int,
    pairs: tuple[str, ...],
    as_json: bool,
) -> None:
    """Print the offset in the target for an offset of the source.

    If there is no record at that offset, it prints the offset of the next record. A target that
    keeps offsets needs no map and has none."""
    config = config_of(context, {"target": target, "name": name}, pairs)
    site = Site(config.target_client)
    try:
        site.refresh()
        if config.offsets_topic not in site.topics:
            raise OffsetNotMapped(f"{target}: there is no topic {config.offsets_topic}")
        translation = offset_map.translate(
            site, config.offsets_topic, TopicPartition(topic, partition), offset
        )
    finally:
        site.close()
    row = {name: getattr(translation, name) for name in ("source", "target", "is_exact")}
    click.echo(json.dumps(row) if as_json else translation.target)
