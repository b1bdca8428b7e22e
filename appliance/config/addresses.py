"""Settings that are addresses: where to listen, and where a ZooKeeper is."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass


@dataclass(frozen=True)
class Address:
    """Where to listen. Port 0 asks the kernel for a free one; `[::1]:80` is IPv6."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        host, _, port = text.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65535:
            raise ValueError(text)
        host = host.removeprefix("[").removesuffix("]")
        if ":" in host:
            ipaddress.IPv6Address(host)
        return cls(host, int(port))

    @property
    def is_loopback(self) -> bool:
        """Nobody on another machine reaches it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        if self == NO_ADDRESS:
            return ""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


NO_ADDRESS = Address("", 0)


@dataclass(frozen=True)
class Ensemble:
    """The servers of one ZooKeeper, and the path in it under which all our nodes are."""

    servers: tuple[Address, ...] = ()
    root: str = ""

    @classmethod
    def parse(cls, text: str) -> Ensemble:
        servers, slash, path = text.partition("/")
        parts = path.rstrip("/").split("/") if path else []
        if any(part in ("", ".", "..") or not part.isprintable() for part in parts):
            raise ValueError(text)
        addresses = tuple(Address.parse(each.strip()) for each in servers.split(","))
        return cls(addresses, "".join(slash + part for part in parts))

    def __str__(self) -> str:
        return ",".join(map(str, self.servers)) + self.root


@dataclass(frozen=True)
class Hosts:
    """Names of hosts, without ports."""

    names: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Hosts:
        names = tuple(each.strip().lower() for each in text.split(","))
        if any(not each or set(each) & set(" /:@") for each in names):
            raise ValueError(text)
        return cls(names)

    def __str__(self) -> str:
        return ",".join(self.names)


NO_HOSTS = Hosts()
NO_ENSEMBLE = Ensemble()
EVERY_INTERFACE = ("0.0.0.0", "::", "0:0:0:0:0:0:0:0")
