"""What the commands of exports have in common: their options, and how an error ends one."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from appliance.cli.remote.access import Access, with_access
from appliance.cli.remote.api import refused, unreached
from appliance.export import export_options
from appliance.process.option_types import Size
from appliance_spark import export_iceberg, export_registry, export_run
from appliance_spark.export_broker import AdminPort, BrokerRefused, BrokerUnreachable
from appliance_spark.export_layout import ExportFailed
from appliance_spark.export_session import MASTER


class Command(click.Command):
    """An error ends a command with one line, as in our other commands, not with a trace."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokerRefused as error:
            raise refused(error, error.status) from error
        except BrokerUnreachable as error:
            raise unreached(error) from error
        except UnicodeEncodeError as error:
            raise click.UsageError(f"got {error.object!r}, which is not UTF-8") from error
        except (ExportFailed, OSError) as error:
            raise click.ClickException(str(error)) from error


class Commands(click.Group):
    command_class = Command


Function = Callable[..., Any]
REGISTRY = "APPLIANCE_EXPORT_REGISTRY"  # in the environment, also of the runs of a scheduler
A_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def options(*given: Function) -> Callable[[Function], Function]:
    def add(command: Function) -> Function:
        for option in reversed(given):
            command = option(command)
        return command

    return add


def with_broker(command: Function) -> Function:
    """The command gets `broker` and `retries`."""

    @wraps(command)
    def with_port(access: Access, **given: Any) -> Any:
        broker = AdminPort(access.address, access.token, access.ca_file)
        return command(broker=broker, **given)

    retries = click.option("--retries", default=export_run.RETRIES, show_default=True,
                           help="Retries of a worker without progress.")
    return with_access(retries(with_port))


with_spark = options(
    click.option("--master", default=MASTER, show_default=True, help="Any Spark master."),
    click.option("--conf", multiple=True, metavar="KEY=VALUE", help="Spark config; repeatable."),
)
with_target = click.option(
    "--target", required=True, metavar="DIR|URL",
    help="A folder that all Spark workers see under the same path, or s3://BUCKET/FOLDER.")
with_schema = options(
    click.option("--layout", type=click.Choice(export_options.LAYOUTS),
                 help="A folder for each hour or day; default: as the target, a new one by hour."),
    click.option("--zone", metavar="ZONE",
                 help="Whose clocks tell hour and day, such as Europe/Berlin; default: as the "
                      "target, a new one UTC."),
    click.option("--file-bytes", type=Size(export_options.FILE_BYTES_MIN), metavar="SIZE",
                 help="Cut files near this size, such as 128MiB; default: no file is cut."),
    click.option("--partition-by", default="timestamp", show_default=True,
                 help="timestamp, append or field:NAME (of JSON or Avro)."),
    click.option("--schema", "mode", type=click.Choice(export_options.SCHEMAS), default="raw",
                 show_default=True),
    click.option("--schema-file", type=click.Path(exists=True, dir_okay=False, path_type=Path),
                 help="The schema as JSON; JSON without one is inferred and pinned."),
    click.option("--framing", type=click.Choice(["confluent", "none"]), default="confluent",
                 show_default=True, help="Header before an Avro value."),
    click.option("--isolation", type=click.Choice(["read_committed", "read_uncommitted"]),
                 default="read_committed", show_default=True),
)


def with_registry(command: Function) -> Function:
    """The command gets `registry`. A definition has none: whoever wrote it may not say who is
    sent the login."""

    @wraps(command)
    def with_place(registry_url: str | None, registry_user: str | None,
                   registry_password_file: Path | None, registry_ca_file: Path | None,
                   **given: Any) -> Any:
        place = export_registry.place_of(
            registry_url, registry_user, registry_password_file, registry_ca_file)
        return command(registry=place, **given)

    return options(
        click.option("--registry", "registry_url", metavar="URL", envvar=f"{REGISTRY}",
                     help="Schema registry of --schema registry."),
        click.option("--registry-user", metavar="NAME", envvar=f"{REGISTRY}_USER",
                     help="Login to it (Basic)."),
        click.option("--registry-password-file", type=A_FILE, envvar=f"{REGISTRY}_PASSWORD_FILE",
                     help="A file with the password, which only its owner may read."),
        click.option("--registry-ca-file", type=A_FILE, envvar=f"{REGISTRY}_CA_FILE",
                     help="Authorities (PEM) that sign its certificate."),
    )(with_place)


with_table = options(
    click.option("--table-name", metavar="NAMESPACE.NAME",
                 help=f"Name of the Iceberg tables; default {export_iceberg.NAME}."),
    click.option("--catalog", multiple=True, metavar="KEY=VALUE",
                 help="name=… of pyiceberg's configuration, or type=, uri= and warehouse=; "
                      "without it an SQLite file in the target."),
)
with_delta = click.option("--delta", "has_delta", is_flag=True,
                          help="Maintain a Delta table, too.")
with_bounds = options(
    click.option("--from", "first", default="earliest", show_default=True,
                 help="Start of a new target: earliest, latest, an offset, @TIME, or a map."),
    click.option("--to", "end", default="latest", show_default=True),
)


with_loss = click.option(
    "--accept-loss", is_flag=True,
    help="Continue behind what retention deleted unexported, and behind damaged records.")


class Root(click.ParamType[str]):
    """A folder or a URL; of several, the environment has `:` between them."""

    name = "root"

    def split_envvar_value(self, rv: str) -> list[str]:
        return [each for each in re.split(r":(?!//)", rv) if each]


with_roots = click.option(
    "--root", multiple=True, envvar="APPLIANCE_EXPORT_ROOTS", metavar="DIR|URL", type=Root(),
    help="Allowed parent of the targets of exports defined in the broker; repeatable.")
with_json = click.option("--json", "as_json", is_flag=True, help="One JSON object.")
with_json_lines = click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
