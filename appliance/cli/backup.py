"""`appliance backup ...`: backups of a running broker, and a data directory made of one."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial, wraps
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from appliance.backup.cipher import cipher_of
from appliance.backup.creation import Created, Creation
from appliance.backup.errors import (
    BackupUnknown,
    ObjectDamaged,
    RestoreFailed,
    SourceBroke,
    TargetBusy,
)
from appliance.backup.manifest import Manifest
from appliance.backup.restoration import Restoration, Restored
from appliance.backup.restore_test import prove
from appliance.backup.several_brokers import SeveralBrokers
from appliance.backup.source import Rate, Source
from appliance.backup.store import open_store
from appliance.backup.target import Target
from appliance.backup.verification import Verified
from appliance.backup.verification import verify as verify_target
from appliance.cli.remote.access import (
    Access,
    access_of,
    admin_option,
    secret_in,
    with_access,
)
from appliance.cli.remote.backup_source import BrokerSource
from appliance.cli.remote.offset_range import time_ms
from appliance.cli.remote.output import put_json, table
from appliance.data_dir import data_marker
from appliance.errors import ApplianceError
from appliance.process.exit_codes import (
    FAILED,
    NOT_FOUND,
    REFUSED,
    UNHEALTHY,
    UNREACHABLE,
    Command,
    Failed,
)
from appliance.process.option_types import FiniteRange
from appliance.process.progress_bar import ProgressBar
from appliance.process.spoken import duration, moment, size, some

UNITS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3}
EXITS = {BackupUnknown: NOT_FOUND, TargetBusy: REFUSED, SourceBroke: UNREACHABLE}


@click.group()
def backup() -> None:
    """Back up a running broker, check backups, and restore them.

    A target is a directory or a URL: s3://bucket/folder (pip install 'appliance-log[backup]')."""


def rate(ctx: click.Context, param: click.Parameter, text: str) -> float:
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?)\s*([kmg]?)b?(?:/s)?", text.strip().lower())
    if found is None:
        raise click.BadParameter(f"got {text!r}, wanted bytes a second, as 50MB")
    return float(found[1]) * UNITS[found[2]]


def asks_a_target(command: Callable[..., Any], is_new: bool = False) -> Callable[..., Any]:
    """Adds the options. The command gets `target` and `as_json`. `is_new`: it may be made."""

    @wraps(command)
    def with_target(target: str, key_file: Path | None, **options: Any) -> Any:
        try:
            cipher = cipher_of(key_file)
            made = Target(target, open_store(target, is_new), cipher)
            return command(target=made, **options)
        except ApplianceError as error:
            raise Failed(str(error), EXITS.get(type(error), FAILED)) from error

    decorated: Callable[..., Any] = with_target
    for option in (
        click.option("--json", "as_json", is_flag=True, help="JSON, for programs."),
        click.option("--key-file", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False),
                     help="The key of an encrypted target: 32 bytes, or 64 hexadecimal digits."),
        click.option("--target", required=True, metavar="T",
                     help="The directory or the URL with the backups."),
    ):  # fmt: skip
        decorated = option(decorated)
    return decorated


# Create


@backup.command(cls=Command)
@click.option("--keep", default=0, metavar="N", type=click.IntRange(0),
              help="Remove older backups than the newest N that are whole; 0: none.")  # fmt: skip
@click.option("--rate", default="0", callback=rate, metavar="BYTES",
              help="Read at most so much a second from the broker, as 50MB; 0: no limit.",
              )  # fmt: skip
@click.option("--every", default=0.0, metavar="SECONDS", type=FiniteRange(0),
              help="Go on for ever: begin a backup so long after the last began.")  # fmt: skip
@click.option("--also", multiple=True, metavar="HOST:PORT[,TOKEN_FILE]",
              help="The admin port of another broker of the cluster, and its token, if `appliance "
              "login` has none: what the first one does not have is read there.")  # fmt: skip
@click.option("--existing", is_flag=True,
              help="Fail if the target has no backup yet, as when a disk is not mounted.",
              )  # fmt: skip
@with_access
@partial(asks_a_target, is_new=True)
def create(
    access: Access, target: Target, keep: int, rate: float, every: float, also: tuple[str, ...],
    existing: bool, as_json: bool,
) -> None:  # fmt: skip
    """Back up the broker as it is now, while it goes on. Only what is new since the last backup is
    read. Exit code 10: something is missing in it, as a partition that is not served, or that only
    other brokers of the cluster have (--also); or the broker has damage that the backup before did
    not tell of, and no backup has those records."""
    if existing and not target.ids():
        raise BackupUnknown(f"{target.where}: there is no backup (--existing)")
    while True:
        began = time.monotonic()
        try:
            made = created([access, *map(also_there, also)], target, rate, keep)
            put_created(made, as_json)
        except SourceBroke as error:
            if not every:
                raise
            click.echo(f"no backup, it is tried again: {error}", err=True)
        if not every:
            break
        time.sleep(max(0.0, began + every - time.monotonic()))
    if not made.is_good:
        click.get_current_context().exit(UNHEALTHY)


def also_there(text: str) -> Access:
    address, _, token_file = text.partition(",")
    ca_file = click.get_current_context().params["ca_file"]
    return access_of(address, secret_in(Path(token_file)) if token_file else None, ca_file)


def created(
    accesses: Sequence[Access], target: Target, rate: float, keep: int
) -> Created:
    brokers = [BrokerSource(each.rest) for each in accesses]
    names = [each.address for each in accesses]
    source: Source = brokers[0] if len(brokers) == 1 else SeveralBrokers(brokers, names)
    progress = ProgressBar("backed up", size)
    with reporting(brokers, "backup", target) as outcome:
        found = Creation(source, target, Rate(rate), progress).run(keep)
        made = found.manifest
        outcome |= {"backup": made.id, "point_ms": made.at_ms, "fault": "".join(made.missing[:1]),
                    "partitions": len(made.partitions), "records": made.records,
                    "bytes": made.size, "took_s": made.took_ms / 1000}  # fmt: skip
    return found


@contextmanager
def reporting(
    brokers: Sequence[BrokerSource], kind: str, target: Target
) -> Iterator[dict[str, Any]]:
    """They are told what it came to. That one cannot be told fails nothing."""
    outcome = {"kind": kind, "target": target.where, "backup": "", "point_ms": 0, "fault": ""}
    try:
        yield outcome
    except ApplianceError as error:
        outcome["fault"] = str(error)
        raise
    finally:
        for each in brokers:
            try:
                each.report(**outcome)
            except ApplianceError as error:
                click.echo(f"the broker does not know of it: {error}", err=True)


def put_created(found: Created, as_json: bool) -> None:
    made = found.manifest
    if as_json:
        click.echo(json.dumps({**facts_of(made), **asdict(found.pruned)}))
        return
    took = duration(made.took_ms / 1000)
    what = "what the broker has of all" if made.missing or made.damaged else "everything"
    click.echo(
        f"backup {made.id}: {what} that was acknowledged before {moment(made.at_ms)}; "
        f"{some(len(made.partitions), 'partition')}, {some(made.records, 'record')}, "
        f"{size(made.size)}, of which {size(made.written_bytes)} are new; took {took}"
    )
    for word in ("missing", "damaged", "kept", "gone"):
        for each in getattr(made, word):
            click.echo(f"{word}: {each}", err=True)
    for each in found.pruned.removed:
        click.echo(f"removed, as --keep says: {each}")
    for each in found.pruned.held:
        click.echo(f"not removed: backup {each} has records that are damaged in all that are newer")
    for each in found.pruned.unreadable:
        click.echo(f"{each}. While it is there, --keep removes no files, for it may need them",
                   err=True)  # fmt: skip


def facts_of(made: Manifest) -> dict[str, Any]:
    return {
        "backup": made.id,
        "at_ms": made.at_ms,
        "took_ms": made.took_ms,
        "cluster_id": made.cluster_id,
        "topics": len({each.topic for each in made.partitions}),
        "partitions": len(made.partitions),
        "records": made.records,
        "bytes": made.size,
        "read_bytes": made.read_bytes,
        "written_bytes": made.written_bytes,
        "is_whole": made.is_whole,
        "missing": list(made.missing),
        "damaged": list(made.damaged),
        "kept": list(made.kept),
        "gone": list(made.gone),
    }


# List and verify


@backup.command("list", cls=Command)
@asks_a_target
def list_backups(target: Target, as_json: bool) -> None:
    """List the backups of a target, and when a restore of each was tested."""
    found = [*target.manifests(target.ids())]
    tests = {backup: test_of(target, backup) for backup, _ in found}
    if as_json:
        return put_json([{**listed(*each), "tested": tests[each[0]]} for each in found])
    rows = [(*row_of(*each), tested_in_words(tests[each[0]])) for each in found]
    heads = ("backup", "partitions", "records", "size", "new", "whole", "restore tested")
    click.echo(table(heads, rows))
    for backup, each in found:
        if isinstance(each, ObjectDamaged):
            click.echo(f"backup {backup} cannot be restored: {each}", err=True)


def test_of(target: Target, backup: str) -> dict[str, Any] | None:
    """A note that is damaged is none: the next test writes it anew."""
    try:
        return target.test_of(backup)
    except ObjectDamaged as error:
        click.echo(f"when a restore was tested is not known: {error}", err=True)
        return None


def listed(backup: str, found: Manifest | ObjectDamaged) -> dict[str, Any]:
    if isinstance(found, ObjectDamaged):
        return {"backup": backup, "is_whole": False, "fault": str(found)}
    return {**facts_of(found), "fault": ""}


def row_of(backup: str, found: Manifest | ObjectDamaged) -> tuple[object, ...]:
    if isinstance(found, ObjectDamaged):
        return backup, "", "", "", "", "DAMAGED"
    return (backup, len(found.partitions), found.records, size(found.size),
            size(found.written_bytes), whole_in_words(found))  # fmt: skip


def whole_in_words(made: Manifest) -> str:
    if not made.is_whole:
        return "NO"
    return "but for damage" if made.damaged else "yes"


def tested_in_words(test: dict[str, Any] | None) -> str:
    return "never" if test is None else f"{moment(test['at_ms'])}, took {test['took_s']:.0f} s"


@backup.command(cls=Command)
@click.option("--backup", "chosen", metavar="ID", help="This one alone; without it all.")
@click.option("--remove-damaged", is_flag=True,
              help="Remove damaged objects: the next backup reads them from the broker again.",
              )  # fmt: skip
@asks_a_target
def verify(target: Target, chosen: str | None, remove_damaged: bool, as_json: bool) -> None:
    """Read backups back, and compare each byte with its checksum. Exit code 10: there is damage;
    1: a file cannot be read, and is damaged or not."""
    found = verify_target(target, [chosen] if chosen else target.ids(),
                          ProgressBar("verified", size))  # fmt: skip
    if not (found.backups or found.damaged or found.unreadable):
        raise BackupUnknown(f"{target.where}: there is no backup")
    put_verified(found, as_json)
    if remove_damaged:
        for path in target.remove_damaged([each.path for each in found.damaged]):
            click.echo(f"removed: {path}", err=True)
    if found.damaged or found.unreadable:
        click.get_current_context().exit(UNHEALTHY if found.damaged else FAILED)


def put_verified(found: Verified, as_json: bool) -> None:
    if as_json:
        return put_json(asdict(found))
    for each in found.damaged:
        click.echo(f"damaged: {each.what}; needed by {', '.join(each.backups)}")
    for each in found.unreadable:
        click.echo(f"unreadable: {each.what}; needed by {', '.join(each.backups)}")
    counts = [some(len(found.damaged), "damaged file")] if found.damaged else []
    if found.unreadable:
        counts.append(f"{some(len(found.unreadable), 'file')} that cannot be read")
    result = ", ".join(counts) or "every byte is as written"
    click.echo(f"{some(found.backups, 'backup')}, {some(found.objects, 'object')}, "
               f"{size(found.bytes)}: {result}")  # fmt: skip
    if found.damaged:
        click.echo("With --remove-damaged they are removed, and the next `appliance backup create` "
                   "reads them from the broker again", err=True)  # fmt: skip


# Restore


@backup.command(cls=Command)
@click.option("--data-dir", metavar="DIR", type=click.Path(path_type=Path, file_okay=False),
              help="An empty directory, for a broker to start from.")  # fmt: skip
@click.option("--backup", "chosen", metavar="ID", help="This one; without it the newest.")
@click.option(
    "--to", metavar="TIME", help="The newest that is not later, as 2026-11-21T08:30 or -2h."
)
@click.option("--topic", "topics", multiple=True, metavar="NAME",
              help="This topic alone, with users, rules and groups; may be repeated.")  # fmt: skip
@click.option("--test", "is_test", is_flag=True,
              help="Restore into a scratch directory (below --data-dir, if that is given), prove "
              "all counts and checksums, note it in the target, and remove it.")  # fmt: skip
@partial(with_access, admin=admin_option(help="With --test: a broker that is told what came of it. "
                                         "Without it nobody is asked."))  # fmt: skip
@asks_a_target
def restore(
    access: Access, target: Target, data_dir: Path | None, chosen: str | None, to: str | None,
    topics: tuple[str, ...], is_test: bool, as_json: bool,
) -> None:  # fmt: skip
    """Make a data directory of a backup. No broker is needed, and none may run in it."""
    at_ms = time_ms(to) if to else None
    tell = ends_test if is_test else told_damaged
    manifest = target.manifest(chosen) if chosen else target.newest(at_ms, tell)
    if is_test:
        told = click.get_current_context().get_parameter_source("admin")
        brokers = [] if told is ParameterSource.DEFAULT else [BrokerSource(access.rest)]
        with reporting(brokers, "restore test", target) as outcome:
            outcome |= {"backup": manifest.id, "point_ms": manifest.at_ms}
            began = time.monotonic()
            found = tested(target, manifest, data_dir)
            outcome |= {"partitions": found.partitions, "records": found.records,
                        "bytes": found.bytes, "took_s": time.monotonic() - began}  # fmt: skip
    elif data_dir is None:
        raise click.UsageError("--data-dir: wanted an empty directory")
    else:
        found = restored(target, manifest, data_dir, topics)
    put_restored(found, data_dir, is_test, as_json)


def told_damaged(what: str) -> None:
    click.echo(f"an older backup is restored, for a newer one cannot be: {what}", err=True)


def ends_test(what: str) -> None:
    """That an older one can be restored is no answer."""
    raise ObjectDamaged(what)


def restored(
    target: Target, manifest: Manifest, data_dir: Path, topics: tuple[str, ...] = ()
) -> Restored:
    progress = ProgressBar("restored", size)
    return Restoration(target, manifest, data_dir, topics, progress).run()


def tested(target: Target, manifest: Manifest, folder: Path | None) -> Restored:
    if folder is not None and not folder.is_dir():
        raise RestoreFailed(f"{folder}: there is no such directory")
    scratch = Path(tempfile.mkdtemp(prefix="restore-test-", dir=folder))
    began, progress, done = time.monotonic(), ProgressBar("verified", size), 0

    def on_bytes(count: int) -> None:
        nonlocal done
        done += count
        progress(done, max(done, manifest.size))

    try:
        found = restored(target, manifest, scratch)
        prove(scratch, manifest, on_bytes)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    facts = {"took_s": round(time.monotonic() - began, 3), "records": found.records}
    target.note_test(manifest.id, facts)
    return found


def put_restored(found: Restored, data_dir: Path | None, is_test: bool, as_json: bool) -> None:
    if as_json:
        return put_json({**asdict(found), "data_dir": None if is_test else str(data_dir)})
    what = "a restore was tested" if is_test else f"restored to {data_dir}"
    click.echo(
        f"backup {found.backup} of {moment(found.at_ms)}: {what}: {some(found.topics, 'topic')}, "
        f"{some(found.partitions, 'partition')}, {some(found.records, 'record')}, "
        f"{size(found.bytes)}"
    )
    for each in found.absent:
        click.echo(f"not in the backup, and empty now: {each}", err=True)
    for word in ("missing", "damaged"):
        for each in getattr(found, word):
            click.echo(f"{word}: {each}", err=True)
    if data_dir is not None and not is_test:
        is_of_a_service = bool(data_marker.read(data_dir))
        serve = f"appliance serve --data-dir {data_dir}"
        click.echo(f"Start it: {'sudo appliance install --start' if is_of_a_service else serve}")
