"""`appliance cluster`: all brokers of a ZooKeeper path, their topics and their health as one."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import click

from appliance.cli.remote.output import put_json, table
from appliance.config import Address, Ensemble
from appliance.process.exit_codes import NOT_FOUND, UNHEALTHY, UNREACHABLE, Command, Failed
from appliance.process.spoken import some
from appliance.process.tls_client import explained, trusting
from appliance.zookeeper.cluster import ClusterUnread, RegisteredBroker, brokers_of

TIMEOUT_S = 10.0
AT_ONCE = 16  # brokers that are asked
ANSWER_MAX = 1 << 20
ADMIN_PORT = 8780


def ensemble(ctx: click.Context, param: click.Parameter, text: str) -> Ensemble:
    try:
        return Ensemble.parse(text)
    except ValueError:
        wanted = "HOST:PORT[,HOST:PORT...][/PATH]"
        raise click.BadParameter(f"got {text!r}, wanted {wanted}") from None


def urls(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> dict[int, str]:
    found = {}
    for each in given:
        number, equals, url = each.partition("=")
        if not equals or not number.isdecimal() or not url.startswith(("http://", "https://")):
            raise click.BadParameter(f"got {each!r}, wanted ID=http://HOST:PORT")
        found[int(number)] = url.rstrip("/")
    return found


@click.command(cls=Command)
@click.option(
    "--zookeeper", "place", required=True, callback=ensemble, metavar="ENSEMBLE",
    envvar="APPLIANCE_ZOOKEEPER_CONNECT",
    help="HOST:PORT[,HOST:PORT...][/PATH], as zookeeper.connect of the brokers.",
)
@click.option(
    "--admin-port", default=ADMIN_PORT, show_default=True, type=click.IntRange(1, 65535),
    help="Of the brokers' admin pages, which ZooKeeper does not know.",
)
@click.option(
    "--admin", "given", multiple=True, callback=urls, metavar="ID=URL",
    help="The admin pages of one broker, where they are elsewhere or have TLS.",
)
@click.option(
    "--ca-file", default="", envvar="APPLIANCE_CA_FILE", metavar="FILE",
    help="Authorities of brokers with TLS; without it those of the system.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def cluster(
    place: Ensemble, admin_port: int, given: dict[int, str], ca_file: str, as_json: bool
) -> None:
    """Show all brokers of a ZooKeeper path: their health and topics as one.

    Exit code 10: a broker is not well, or does not answer."""
    try:
        brokers = brokers_of(place, TIMEOUT_S)
    except ClusterUnread as error:
        raise Failed(str(error), UNREACHABLE) from error
    if not brokers:
        raise Failed(f"no broker is registered in {place}", NOT_FOUND)
    admins = [given.get(each.id) or admin_of(each, admin_port) for each in brokers]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        healths = [*threads.map(partial(health_of, ca_file=ca_file), admins)]
    rows = [
        {"id": each.id, "address": each.address, "admin": url, "topics": each.topics, **health}
        for each, url, health in zip(brokers, admins, healths, strict=True)
    ]
    answer = {"status": worst(rows), "brokers": rows, "topics": topics_of(brokers)}
    if as_json:
        put_json(answer)
    else:
        put(answer)
    if answer["status"] != "ok":
        click.get_current_context().exit(UNHEALTHY)


def admin_of(broker: RegisteredBroker, port: int) -> str:
    try:
        host = Address.parse(broker.address).host
    except ValueError:
        host = broker.address  # its node has something else: asking says so
    return f"http://{Address(host, port)}"


def health_of(url: str, ca_file: str) -> dict[str, Any]:
    """By /healthz, which wants no login; one that is not well answers 503."""
    try:
        handlers = []
        if url.startswith("https:"):
            handlers.append(urllib.request.HTTPSHandler(context=trusting(ca_file)))
        opener = urllib.request.build_opener(*handlers)
        try:
            with opener.open(f"{url}/healthz", timeout=TIMEOUT_S) as answer:
                data = answer.read(ANSWER_MAX)
        except urllib.error.HTTPError as error:
            with error:
                data = error.read(ANSWER_MAX)
        found = json.loads(data)
        return {"status": str(found["status"]), "reasons": [str(each) for each in found["reasons"]]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = getattr(error, "reason", error)
        return {"status": "unreachable", "reasons": [f"{url}: {explained(reason) or reason}"]}


ORDER = ("ok", "degraded")  # all others are worse


def worst(rows: list[dict[str, Any]]) -> str:
    states = {str(each["status"]) for each in rows}
    bad = sorted(states - {*ORDER})
    return bad[0] if bad else "degraded" if "degraded" in states else "ok"


def topics_of(brokers: list[RegisteredBroker]) -> list[dict[str, Any]]:
    names = sorted({name for each in brokers for name in each.topics})
    return [
        {
            "topic": name,
            "partitions": sum(each.topics.get(name, 0) for each in brokers),
            "brokers": [each.id for each in brokers if name in each.topics],
        }
        for name in names
    ]


def put(answer: dict[str, Any]) -> None:
    rows = answer["brokers"]
    click.echo(table(
        ("broker", "address", "health", "topics", "partitions", "why"),
        [(each["id"], each["address"], each["status"], len(each["topics"]),
          sum(each["topics"].values()), told(each["reasons"])) for each in rows],
    ))  # fmt: skip
    if answer["topics"]:
        click.echo("")
        click.echo(table(
            ("topic", "partitions", "brokers"),
            [(each["topic"], each["partitions"], " ".join(map(str, each["brokers"])))
             for each in answer["topics"]],
        ))  # fmt: skip
    well = sum(each["status"] == "ok" for each in rows)
    click.echo(f"\n{answer['status']}: {well} of {some(len(rows), 'broker')} are well")


def told(reasons: list[str]) -> str | None:
    if not reasons:
        return None
    return reasons[0] + (f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else "")
