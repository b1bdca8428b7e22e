"""The options by which a command takes the settings of a broker, as `serve` does."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from appliance import config as configuration
from appliance.installation.paths import SETTINGS


def settings_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option(
            "--set",
            "pairs",
            multiple=True,
            metavar="KEY=VALUE",
            help="A setting; may be repeated.",
        ),
        click.option(
            "--zookeeper",
            metavar="HOST:PORT[,...]/PATH",
            help="ZooKeeper to register in (zookeeper.connect).",
        ),
        click.option(
            "--admin", metavar="HOST:PORT", help="Address of the admin port (admin.address)."
        ),
        click.option(
            "--listen",
            multiple=True,
            metavar="[NAME://]HOST:PORT",
            help="Address for Kafka clients; may be repeated (listeners).",
        ),
        click.option("--data-dir", metavar="DIR", help="Directory of the logs (data.dir)."),
        click.option(
            "--config", "file", type=click.Path(path_type=Path), help="A TOML file with settings."
        ),
    ):
        command = option(command)
    return command


FLAGS = {
    "data_dir": "data.dir",
    "listen": "listeners",
    "admin": "admin.address",
    "zookeeper": "zookeeper.connect",
}


def or_of_the_service(options: dict[str, Any]) -> dict[str, Any]:
    """Without a file and a data directory: the settings of the service, if there are any."""
    is_nothing_said = options["file"] is None and options["data_dir"] is None
    return {**options, "file": SETTINGS} if is_nothing_said and SETTINGS.exists() else options


def load_config(
    file: Path | None, pairs: Iterable[str], listen: Sequence[str], **flags: str | None
) -> configuration.BrokerConfig:
    flags["listen"] = ",".join(listen) or None
    named = {FLAGS[flag]: text for flag, text in flags.items()}
    return configuration.load(file, os.environ, pairs, named)
