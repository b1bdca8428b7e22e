"""A RabbitMQ node that serves only streams, on loopback, with all its files in one directory."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.peers import other_protocol_clients
from bench.peers.brokers import STOP_S
from bench.peers.other_protocol_brokers import Streams
from loadtest.ports import lasting_ports

CONFIG = """\
listeners.tcp = none
stream.listeners.tcp.1 = {address}
stream.advertised_host = {host}
stream.advertised_port = {port}
"""


class RabbitMQ(Streams):
    """Starts Erlang's name server (epmd), too: one that the node started would outlive the node."""

    name = "rabbitmq"
    _names: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        if self._names is None:
            self._names_port, self._nodes_port = lasting_ports(2)
            self._names = self._run(["epmd"], self._names_port)
        try:
            return super().start()
        except BaseException:
            self._end_names()
            raise

    def stop(self) -> None:
        try:
            super().stop()
        finally:
            self._end_names()

    def _end_names(self) -> None:
        if self._names is not None:
            names, self._names = self._names, None
            names.kill()  # epmd has no state
            names.wait(STOP_S)

    def words(self, port: int) -> Sequence[str]:
        host = self.address.partition(":")[0]
        config = CONFIG.format(address=self.address, host=host, port=port)
        (self.directory / "rabbitmq.conf").write_text(config)
        (self.directory / "plugins").write_text("[rabbitmq_stream].\n")
        return [script()]

    def environment(self) -> Mapping[str, str]:
        here = self.directory
        return {
            "HOME": str(here),  # Erlang's cookie is in it
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self._names_port),
            "RABBITMQ_NODENAME": "bench@localhost",
            "RABBITMQ_DIST_PORT": str(self._nodes_port),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_CONF_ENV_FILE": os.devnull,  # no settings of /etc
            "RABBITMQ_CONFIG_FILE": str(here / "rabbitmq.conf"),
            "RABBITMQ_CONFIG_FILES": str(here / "conf.d"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(here / "plugins"),
            "RABBITMQ_MNESIA_BASE": str(here / "data"),
            "RABBITMQ_LOG_BASE": str(here / "logs"),
            "RABBITMQ_LOGS": "-",
            "RUNNING_UNDER_SYSTEMD": "true",  # the script execs the node: one process, one pid
        }

    def create_topic(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        asyncio.run(self._ask("create_stream", topic))

    def delete_topic(self, topic: str) -> None:
        asyncio.run(self._ask("delete_stream", topic))

    async def _ask(self, what: str, topic: str) -> None:
        async with other_protocol_clients.rabbitmq_client("Producer", self.address) as client:
            await getattr(client, what)(topic)


def script() -> str:
    """The script itself, not Debian's wrapper, which changes the user and the directory."""
    path = shutil.which("rabbitmq-server")
    assert path is not None, "rabbitmq-server is not on PATH"
    return str(Path(path).resolve().with_name("rabbitmq-server"))
