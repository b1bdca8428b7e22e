"""A broker in this process, on a thread of its own: for programs and examples, and for tests.

    with running_broker("/tmp/data") as broker: ...
    with running_broker("/tmp/data", logins=[Login("ann", "ann's password")], tls=True) as broker:
        producer = Producer(broker.client_settings("ann"))

`testing` has pytest's fixtures for it; nothing here needs pytest.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

# Ports are the kernel's choice. No space is held back: the file that does takes longer than all
# else, and a test's disk may well be nearly full. Nothing reads the segments meanwhile. A consumer
# waits for no second one.
SETTINGS = {
    "listeners": "127.0.0.1:0",
    "admin.address": "127.0.0.1:0",
    "export.address": "127.0.0.1:0",
    "storage.reserve.bytes": "0",
    "storage.low.water.bytes": "0",
    "scrub.bytes.per.second": "0",
    "group.initial.rebalance.delay.ms": "0",
}

STOP_S = 30.0  # far more than a stop takes; a test run must not hang for ever

NO_SETTINGS: Mapping[str, str] = {}
MECHANISM = "SCRAM-SHA-256"
CERTIFIED_FOR = ("localhost", "127.0.0.1", "::1")
CERTIFIED_DAYS = 365


@dataclass(frozen=True)
class Login:
    """Somebody who may log in, by SCRAM. Roles are admin, operator and viewer; who has the
    role `none` may do what access rules allow, which is nothing at first."""

    user: str
    password: str
    role: str = "admin"


class RunningBroker:
    """A broker whose event loop has a thread of its own. `running_broker` starts and stops it."""

    def __init__(
        self,
        data_dir: Path,
        settings: Mapping[str, str],
        logins: Sequence[Login] = (),
        tls: bool = False,
    ) -> None:
        self.data_dir = data_dir
        self.ca_file = ""  # what clients have to trust; empty: there is no TLS
        self.bootstrap = ""  # HOST:PORT for Kafka clients: the first listener
        self.addresses: dict[str, str] = {}  # of all listeners, by their names
        self.admin = ""  # HOST:PORT of health and the admin pages
        self.export = ""  # HOST:PORT of bulk data
        self.setup_secret = ""  # of the link that makes their first user
        self._passwords = {each.user: each.password for each in logins}
        protocol = f"{'SASL_' if logins else ''}{'SSL' if tls else 'PLAINTEXT'}"
        self._protocol = "PLAINTEXT"  # of the first listener, once it is there
        self._settings = {**SETTINGS, "listeners": f"{protocol}://127.0.0.1:0"}
        if tls:
            self.ca_file, self._settings["ssl.keystore.location"] = certified(data_dir)
        make_users(data_dir, logins)
        self._settings |= settings
        self._serves: Future[Callable[[], object]] = Future()  # what ends it
        thread = ThreadPoolExecutor(1, "appliance")
        self._ended = thread.submit(asyncio.run, self._serve())
        thread.shutdown(wait=False)
        either: list[Future[Any]] = [self._serves, self._ended]
        wait(either, return_when=FIRST_COMPLETED)
        if self._ended.done():
            self._ended.result()  # raises what the start failed with

    def client_settings(self, user: str = "") -> dict[str, str]:
        """For a client of librdkafka, at the first listener. Other clients have other names."""
        made = {"bootstrap.servers": self.bootstrap, "security.protocol": self._protocol}
        if self.ca_file:
            made["ssl.ca.location"] = self.ca_file
        if user:
            made |= {"sasl.mechanism": MECHANISM, "sasl.username": user,
                     "sasl.password": self._passwords[user]}  # fmt: skip
        return made

    def stop(self) -> None:
        """Clients get what is due, and the data directory is closed with a clean mark."""
        if not self._ended.done():
            self._serves.result()()
        self._ended.result(STOP_S)

    async def _serve(self) -> None:
        # only now: pytest loads `testing`, and this, also in runs that want no broker
        from appliance import config
        from appliance.server import Server

        pairs = [f"{name}={value}" for name, value in self._settings.items()]
        flags = {"data.dir": str(self.data_dir)}
        server = Server(config.load(pairs=pairs, flags=flags), is_embedded=True)
        serving = asyncio.ensure_future(server.serve(lambda done, found: None))
        ready = asyncio.ensure_future(server.ready.wait())
        await asyncio.wait({serving, ready}, return_when=asyncio.FIRST_COMPLETED)
        if ready.done():
            self.bootstrap, self.admin = str(server.kafka_addresses[0]), str(server.admin_address)
            names = [each.name for each in server.config.listeners]
            self._protocol = server.config.protocols.of(names[0])
            self.addresses = dict(zip(names, map(str, server.kafka_addresses), strict=True))
            self.export = str(server.export_address)
            self.setup_secret = server.setup_secret
            loop = asyncio.get_running_loop()
            self._serves.set_result(partial(loop.call_soon_threadsafe, server.stop))
        ready.cancel()
        await serving


@contextmanager
def running_broker(
    data_dir: Path | str,
    settings: Mapping[str, str] = NO_SETTINGS,
    *,
    logins: Sequence[Login] = (),
    tls: bool = False,
) -> Iterator[RunningBroker]:
    """Serves when the block begins, has stopped cleanly when it ends. A directory that was used
    before is recovered, with all its topics. With `logins` or `tls` its listener has them, unless
    the settings name other listeners. Certificates are beside the directory."""
    broker = RunningBroker(Path(data_dir), settings, logins, tls)
    try:
        yield broker
    finally:
        broker.stop()


def make_users(data_dir: Path, logins: Sequence[Login]) -> None:
    """Those that the directory does not have yet."""
    if not logins:
        return
    from appliance.access.user_rows import UserRows
    from appliance.admin.users import make_user
    from appliance.catalog import catalog
    from appliance.process import owner_only

    data_dir.mkdir(owner_only.DIRECTORY_MODE, parents=True, exist_ok=True)
    with closing(catalog.Catalog.open(data_dir / catalog.NAME)) as opened:
        rows = UserRows(opened)
        known = {each.name for each in rows.users()}
        for each in logins:
            if each.user not in known:
                make_user(rows, each.user, each.role, each.password)


def certified(data_dir: Path) -> tuple[str, str]:
    """The files of an authority and of a certificate for loopback that it has signed. They stay for
    the next start."""
    from appliance.certificates.authority import made_authority, made_certificate
    from appliance.process import owner_only

    folder = data_dir.with_name(f"{data_dir.name}.tls")
    ca, server = folder / "ca.pem", folder / "server.pem"
    if not server.exists():
        owner_only.make_directory(folder, exist_ok=True)
        authority = made_authority("authority of a test")
        made = made_certificate(authority, CERTIFIED_FOR, CERTIFIED_DAYS)
        ca.write_bytes(authority.certificate_pem)
        owner_only.write(server, made.key_pem + made.certificate_pem)
    return os.fspath(ca), os.fspath(server)
