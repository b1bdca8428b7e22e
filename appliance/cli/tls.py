"""`appliance tls ...`: certificates for a broker, and a look at those that it has."""

from __future__ import annotations

import os
import socket
import ssl
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from cryptography.x509 import load_der_x509_certificate

from appliance import config as configuration
from appliance.certificates import offered
from appliance.certificates.authority import (
    Signed,
    authority_of,
    made_authority,
    made_certificate,
)
from appliance.certificates.certificate import (
    Facts,
    dates_of,
    facts_of,
    faults_of,
)
from appliance.certificates.https import context_of
from appliance.certificates.used_by_ports import chain_of, ports_by_tls, trusted_by
from appliance.cli.remote.output import put_json
from appliance.config import Address, BrokerConfig, TlsConfig
from appliance.process import owner_only
from appliance.process.exit_codes import FAILED, UNHEALTHY, UNREACHABLE, Command, Failed
from appliance.process.tls_client import explained

DAYS = 825  # Apple's systems take no longer ones
ON_LOOPBACK = ("localhost", "127.0.0.1", "::1")
READABLE = 0o644  # a certificate is no secret
JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object.")


@click.group()
def tls() -> None:
    """Certificates of a broker."""


# Making them


@tls.command("self-signed", cls=Command)
@click.argument("names", nargs=-1)
@click.option(
    "--dir",
    "folder",
    default="tls",
    show_default=True,
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the files are made.",
)
@click.option(
    "--days",
    default=DAYS,
    show_default=True,
    type=click.IntRange(1, 3650),
    help="That the broker's certificate is good for.",
)
@click.option("--replace", is_flag=True, help="Replace the certificate that is there.")
@JSON
def self_signed(
    names: tuple[str, ...], folder: Path, days: int, replace: bool, as_json: bool
) -> None:
    """Make an authority, and a certificate that it signs for a broker of these NAMES and addresses.

    Without NAMES it is for this machine's name. Loopback is always among them. An authority that is
    in DIR already signs again: clients that trust it need nothing new."""
    wanted = tuple(dict.fromkeys([*(names or own_names()), *ON_LOOPBACK]))
    server = folder / "server.pem"
    if server.exists() and not replace:
        raise Failed(f"{server} exists already: --replace makes another one", FAILED)
    folder.mkdir(mode=owner_only.DIRECTORY_MODE, parents=True, exist_ok=True)
    authority = authority_in(folder)
    try:
        made = made_certificate(authority, wanted, days)
    except ValueError as error:
        raise click.UsageError(f"NAMES: {error}") from error
    put(server, made.key_pem + made.certificate_pem, owner_only.FILE_MODE)
    files = {"ca": folder / "ca.pem", "ca_key": folder / "ca.key", "server": server}
    if as_json:
        paths = {name: str(path.absolute()) for name, path in files.items()}
        return put_json({**paths, "names": list(wanted), **as_plain(facts_of(made.certificate))})
    click.echo(told(folder, wanted, facts_of(made.certificate)))


def own_names() -> list[str]:
    return list(dict.fromkeys([socket.gethostname(), socket.getfqdn()]))


def authority_in(folder: Path) -> Signed:
    """That which is there, or a new one."""
    certificate, key = folder / "ca.pem", folder / "ca.key"
    if not key.exists():
        made = made_authority(f"appliance authority of {socket.gethostname()}")
        put(key, made.key_pem, owner_only.FILE_MODE)
        put(certificate, made.certificate_pem, READABLE)
        return made
    try:
        return authority_of(certificate.read_bytes(), key.read_bytes())
    except (ValueError, TypeError) as error:
        raise Failed(f"{certificate} and {key}: {error}; wanted those that this command made",
                     FAILED) from error  # fmt: skip


def put(path: Path, data: bytes, mode: int) -> None:
    """Whole or not at all: the broker reads it again when it changes."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        os.fchmod(file.fileno(), mode)  # whatever the umask says
        file.write(data)
    new.replace(path)


def told(folder: Path, names: tuple[str, ...], facts: Facts) -> str:
    path = folder.absolute()
    return f"""\
{path}/server.pem  the broker's certificate and key, until {facts.not_after:%Y-%m-%d}; keep it here
{path}/ca.key      signs further ones; keep it off the broker's machine if you can
{path}/ca.pem      for clients: copy it to them, it is no secret
for: {", ".join(names)}

The broker:        ssl.keystore.location={path}/server.pem
librdkafka, kcat:  security.protocol=SSL ssl.ca.location=ca.pem
Java:              security.protocol=SSL ssl.truststore.type=PEM ssl.truststore.location=ca.pem
kafka-python:      security_protocol="SSL", ssl_cafile="ca.pem"
aiokafka:          security_protocol="SSL", ssl_context=create_ssl_context(cafile="ca.pem")
Spark, exports:    option("caFile", "ca.pem"), APPLIANCE_CA_FILE=ca.pem
appliance ...:     appliance login --ca-file ca.pem https://{names[0]}:8780
With a login SSL is SASL_SSL."""


# Looking at them


@tls.command(cls=Command)
@click.argument("address", default="", metavar="[HOST:PORT]")
@click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A TOML file with settings, as of serve.",
)
@click.option("--set", "pairs", multiple=True, metavar="KEY=VALUE", help="A setting; repeatable.")
@JSON
def check(address: str, file: Path | None, pairs: tuple[str, ...], as_json: bool) -> None:
    """Load the certificate of the settings as the broker would, and say what is wrong with it.

    With HOST:PORT, connect there instead and say what is offered. Exit code 10: something is
    wrong."""
    if address:
        found = shown_at(address)
    else:
        found = shown_here(configuration.load(file, os.environ, pairs))
    if as_json:
        put_json(found)
    else:
        for name, value in found.items():
            if name == "others":
                continue  # what is wrong with them is among the faults
            text = ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else value
            click.echo(f"{name.replace('_', ' ')}: {text if text != '' else 'none'}")
    if found["faults"]:
        click.get_current_context().exit(UNHEALTHY)


def shown_here(config: BrokerConfig) -> dict[str, Any]:
    """What the settings name for all ports, or the first listener that has a store of its own."""
    uses = ports_by_tls(config)
    if not uses:
        raise Failed("ssl.keystore.location: there is none; wanted the file of a certificate and "
                     "its key, which `appliance tls self-signed` makes", FAILED)  # fmt: skip
    (first, *others) = [shown_store(each, used) for each, used in uses]
    own = [f"{each['keystore']}: {fault}" for each in others for fault in each["faults"]]
    return {**first, "others": others, "faults": [*first["faults"], *own]}


def shown_store(tls: TlsConfig, used: list[str]) -> dict[str, Any]:
    context_of(tls)  # as the broker does: refused with the reason
    chain, trusted = chain_of(tls), trusted_by(tls)
    faults = faults_of(chain)
    faults += [f"trust store: {each}" for one in trusted for each in dates_of([one])]
    if not used:
        faults.append("no port uses it: wanted a listener of SSL or SASL_SSL, or admin.tls=on")
    return {
        "keystore": str(tls.keystore),
        **as_plain(facts_of(chain[0])),
        "chain": [each.subject.rfc4514_string() for each in chain[1:]],
        "trusted": [each.subject.rfc4514_string() for each in trusted],
        "used_by": used,
        "faults": faults,
    }


def shown_at(text: str) -> dict[str, Any]:
    try:
        address = Address.parse(text)
    except ValueError:
        raise click.UsageError(f"got {text!r}, wanted HOST:PORT") from None
    try:
        found = offered.look(address.host, address.port)
    except OSError as error:
        why = explained(error) or (error.strerror if not isinstance(error, ssl.SSLError) else error)
        raise Failed(f"{address}: {why or error}", UNREACHABLE) from error
    certificate = load_der_x509_certificate(found.certificate)
    old = [each for each in found.versions if each in ("TLSv1", "TLSv1.1")]
    faults = faults_of([certificate])
    faults += [f"{each} is offered, which is broken" for each in old]
    return {
        "address": str(address),
        "versions": found.versions,
        "ciphers": found.ciphers,
        "resumption": found.is_resumed,
        **as_plain(facts_of(certificate)),
        "faults": faults,
    }


def as_plain(facts: Facts) -> dict[str, Any]:
    row = {**asdict(facts), "names": list(facts.names), "days_left": facts.days_left}
    return {**row, "not_before": f"{facts.not_before:%Y-%m-%dT%H:%M:%SZ}",
            "not_after": f"{facts.not_after:%Y-%m-%dT%H:%M:%SZ}"}  # fmt: skip
