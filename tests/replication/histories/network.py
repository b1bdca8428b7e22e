"""A machine for each node as far as its network goes: a network namespace with one cable to a
switch (a bridge), to which this process, with the clients, is plugged in too.

    cut     packets of one node are dropped at another; a direction at a time
    loss    a part of what arrives at a node is dropped
    narrow  what is large is dropped: a path that takes smaller packets than its ends believe
    slow    what a node sends waits: behind a slow cable (tbf), which every kernel has
    down    the cable is out: nobody gets an answer, not even that nobody is there
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Iterable, Sequence

NARROW = 600  # bytes of a packet that a narrow path does not take
WORDS = 56  # of one that says something: more than TCP's bare acknowledgements are
NEWS = 130  # of one by which ZooKeeper says more than that the session goes on
CLIENTS = "clients"  # this process: the address of the bridge
TOOLS = ("ip", "tc", "iptables-restore", "nsenter", "ss")
Pair = tuple[str, str]  # who sends, and who does not get it


def why_not() -> str:
    """The reason why this machine cannot run it; empty if it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [each for each in TOOLS if not shutil.which(each)]
    if missing:
        return f"not installed: {', '.join(missing)}"
    name = f"hist{os.getpid()}"
    done = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if done.returncode:
        return f"no network namespaces: {done.stderr.strip()}"
    try:
        return _no_filter(name)
    finally:
        run("ip", "netns", "del", name)


def _no_filter(name: str) -> str:
    rules = "*filter\n-A INPUT -m statistic --mode random --probability 0.5 -j DROP\nCOMMIT\n"
    command = [*inside(name), "iptables-restore"]
    done = subprocess.run(command, input=rules, capture_output=True, text=True, check=False)
    return f"no packet filter: {done.stderr.strip()}" if done.returncode else ""


def inside(namespace: str) -> list[str]:
    """In front of a command."""
    return ["nsenter", f"--net=/run/netns/{namespace}"]


def run(*command: str, given: str = "") -> str:
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def bridge_of(number: int) -> str:
    return f"hist{number}"


def _taken_number() -> int:
    """Whose bridge was made by us, whoever looks for one at the same time."""
    for number in range(1, 250):
        command = ["ip", "link", "add", bridge_of(number), "type", "bridge"]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return number
    raise RuntimeError("250 networks are there already")


class Network:
    """`with` takes it away again. The processes in it must have ended."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = [*names]
        self._number = 0
        self._cuts: Counter[tuple[Pair, int]] = Counter()  # with the size from which on it is so
        self._losses: dict[str, float] = {}
        self._narrow: Counter[tuple[Pair, int]] = Counter()
        self._guard = threading.Lock()

    def __enter__(self) -> Network:
        self._number = _taken_number()
        try:
            run("ip", "address", "add", f"{self.address(CLIENTS)}/24", "dev", self._bridge)
            run("ip", "link", "set", self._bridge, "up")
            for each in self.names:
                self._plug_in(each)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for each in self.names:
            subprocess.run(["ip", "netns", "del", self.namespace(each)], capture_output=True)
            subprocess.run(["ip", "link", "del", self._cable(each)], capture_output=True)
        subprocess.run(["ip", "link", "del", self._bridge], capture_output=True)

    def _plug_in(self, name: str) -> None:
        namespace, cable = self.namespace(name), self._cable(name)
        run("ip", "netns", "add", namespace)
        run("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        run("ip", "link", "set", cable, "master", self._bridge, "up")
        within = inside(namespace)
        run(*within, "ip", "address", "add", f"{self.address(name)}/24", "dev", "eth0")
        run(*within, "ip", "link", "set", "lo", "up")
        run(*within, "ip", "link", "set", "eth0", "up")

    @property
    def _bridge(self) -> str:
        return bridge_of(self._number)

    def namespace(self, name: str) -> str:
        return f"{self._bridge}-{name}"

    def _cable(self, name: str) -> str:
        return f"{self._bridge}{name}"

    def address(self, name: str) -> str:
        last = 254 if name == CLIENTS else 1 + self.names.index(name)
        return f"10.213.{self._number}.{last}"

    # Faults. What is cut twice is mended twice

    def cut(self, pairs: Iterable[Pair]) -> None:
        self._change(Counter((each, 0) for each in pairs), self._cuts)

    def mend(self, pairs: Iterable[Pair]) -> None:
        self._change(Counter({(each, 0): -1 for each in pairs}), self._cuts)

    def reset(self, name: str, other: str) -> None:
        """Its connections to the other one are broken off, as a firewall does that forgot them."""
        run(*inside(self.namespace(name)), "ss", "-K", "dst", self.address(other))

    def lose(self, name: str, part: float) -> None:
        with self._guard:
            self._losses[name] = part
            self._filter(name)

    def narrow(self, pairs: Iterable[Pair], least: int = NARROW) -> None:
        """Packets of so many bytes are lost."""
        self._change(Counter((each, least) for each in pairs), self._narrow)

    def widen(self, pairs: Iterable[Pair], least: int = NARROW) -> None:
        self._change(Counter({(each, least): -1 for each in pairs}), self._narrow)

    def slow(self, name: str, kilobits: int) -> None:
        """0: as fast as ever."""
        cable = [*inside(self.namespace(name)), "tc", "qdisc"]
        there = run(*cable, "show", "dev", "eth0")
        if kilobits:
            run(*cable, "replace", "dev", "eth0", "root", "tbf", "rate", f"{kilobits}kbit",
                "burst", "16kb", "latency", "800ms")  # fmt: skip
        elif "tbf" in there:
            run(*cable, "del", "dev", "eth0", "root")

    def plug(self, name: str, is_in: bool) -> None:
        run("ip", "link", "set", self._cable(name), "up" if is_in else "down")

    def heal(self) -> None:
        with self._guard:
            self._cuts.clear()
            self._losses.clear()
            self._narrow.clear()
            for each in self.names:
                self._filter(each)
        for each in self.names:
            self.slow(each, 0)
            self.plug(each, is_in=True)

    def _change(
        self, pairs: Counter[tuple[Pair, int]], known: Counter[tuple[Pair, int]]
    ) -> None:
        with self._guard:
            for pair, times in pairs.items():
                known[pair] = max(0, known[pair] + times)
            concerned = {each for pair, _ in pairs for each in pair} - {CLIENTS}
            for each in concerned:
                self._filter(each)

    def _filter(self, name: str) -> None:
        rules = [f"-A INPUT -s {self.address(sender)}{_at_least(size)} -j DROP"
                 for ((sender, to), size), times in (self._cuts + self._narrow).items()
                 if times and to == name]  # fmt: skip
        if self._cuts[(name, CLIENTS), 0]:
            rules.append(f"-A OUTPUT -d {self.address(CLIENTS)} -j DROP")
        if part := self._losses.get(name):
            rules.append(f"-A INPUT -m statistic --mode random --probability {part} -j DROP")
        given = "*filter\n" + "".join(f"{each}\n" for each in rules) + "COMMIT\n"
        run(*inside(self.namespace(name)), "iptables-restore", given=given)


def _at_least(size: int) -> str:
    return f" -m length --length {size}:65535" if size else ""


def both_ways(some: Iterable[str], others: Iterable[str]) -> list[Pair]:
    there = [*others]
    return [pair for a in some for b in there if a != b for pair in ((a, b), (b, a))]


def one_way(some: Iterable[str], others: Iterable[str]) -> list[Pair]:
    there = [*others]
    return [(a, b) for a in some for b in there if a != b]
