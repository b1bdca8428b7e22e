"""The network: queues of connections, packets that were dropped, and the broker's own ports."""

from __future__ import annotations

from collections.abc import Iterator

from appliance.config import BrokerConfig
from appliance.doctor.check import Check, sysctl
from appliance.machine.kernel_files import KernelFiles, text_in

BACKLOG_MIN, SYN_BACKLOG_MIN = 1024, 1024
LISTENS = "0A"  # a state in /proc/net/tcp


def checks(kernel: KernelFiles, config: BrokerConfig, *, is_running: bool) -> Iterator[Check]:
    yield backlog(kernel, "net.core.somaxconn", BACKLOG_MIN)
    yield backlog(kernel, "net.ipv4.tcp_max_syn_backlog", SYN_BACKLOG_MIN)
    yield overflows(kernel)
    yield dropped(kernel)
    yield from ports(kernel, config, is_running=is_running)


def backlog(kernel: KernelFiles, name: str, least: int) -> Check:
    why = "when all clients come back at once, those beyond it wait a second and try again"
    found = kernel.number("proc/sys/" + name.replace(".", "/"))
    if found is None or found >= least:
        return Check(name, "ok", "not told" if found is None else str(found), why)
    fix, change = sysctl(name, 4 * least)
    return Check(name, "advice", f"{found}, wanted {least}", why, fix, (change,))


def counters(kernel: KernelFiles, group: str) -> dict[str, int]:
    """Of /proc/net/netstat: a line of names, then one of numbers."""
    lines = [
        line.split()[1:]
        for line in text_in(kernel.proc / "net" / "netstat").splitlines()
        if line.startswith(f"{group}:")
    ]
    if len(lines) < 2:
        return {}
    numbers = dict(zip(lines[0], lines[1], strict=False))
    return {name: int(text) for name, text in numbers.items() if text.isdigit()}


def overflows(kernel: KernelFiles) -> Check:
    count = counters(kernel, "TcpExt").get("ListenOverflows", 0)
    why = "connections that were refused since the boot, as a program did not take them in time"
    if not count:
        return Check("listen queue", "ok", "none was refused", why)
    fix = "`nstat -az TcpExtListenOverflows` again later: if it grows, raise net.core.somaxconn"
    return Check("listen queue", "advice", f"{count} refused since the boot", why, fix)


def dropped(kernel: KernelFiles) -> Check:
    """The second column of softnet_stat, in hexadecimal: one line for each processor."""
    rows = [line.split() for line in text_in(kernel.proc / "net" / "softnet_stat").splitlines()]
    count = sum(int(row[1], 16) for row in rows if len(row) > 1)
    why = "packets that a processor had no room for come again later, and later is slow"
    if not count:
        return Check("network backlog", "ok", "no packet was dropped", why)
    now = kernel.number("proc/sys/net/core/netdev_max_backlog") or 1000
    fix, change = sysctl("net.core.netdev_max_backlog", max(4 * now, 4000))
    found = f"{count} packets dropped since the boot, net.core.netdev_max_backlog {now}"
    return Check("network backlog", "advice", found, why, fix, (change,))


# Ports


def wanted_ports(config: BrokerConfig) -> dict[str, int]:
    found = {each.name: each.address.port for each in config.listeners}
    return {**found, "admin": config.admin_address.port, "export": config.export_listens.port}


def listening(kernel: KernelFiles) -> set[int]:
    found = set()
    for name in ("tcp", "tcp6"):
        for line in text_in(kernel.proc / "net" / name).splitlines()[1:]:
            fields = line.split()
            if len(fields) > 3 and fields[3] == LISTENS:
                found.add(int(fields[1].rpartition(":")[2], 16))
    return found


def ports(kernel: KernelFiles, config: BrokerConfig, *, is_running: bool) -> Iterator[Check]:
    taken = listening(kernel)
    span = kernel.text("proc/sys/net/ipv4/ip_local_port_range").split()
    reserved = kernel.text("proc/sys/net/ipv4/ip_local_reserved_ports")
    for name, port in wanted_ports(config).items():
        check, why = (
            f"port {name}",
            "a port that another program has keeps the broker from starting",
        )
        if port == 0:
            continue
        if port in taken and not is_running:
            fix = f"`ss -ltnp sport = :{port}` says whose it is; stop it, or set another port"
            found = f"{port} is taken, and not by a broker of this data directory"
            yield Check(check, "failing", found, why, fix)
        elif (
            len(span) == 2
            and int(span[0]) <= port <= int(span[1])
            and not is_within(port, reserved)
        ):
            fix, change = sysctl("net.ipv4.ip_local_reserved_ports", joined(reserved, port))
            found = f"{port} is one that clients of others may get ({span[0]} to {span[1]})"
            yield Check(check, "advice", found, why, fix, (change,))
        else:
            yield Check(check, "ok", f"{port}, " + ("ours" if port in taken else "free"), why)


def is_within(port: int, reserved: str) -> bool:
    """Of a list as the kernel writes it: 8780,9092-9094."""
    for each in filter(None, reserved.split(",")):
        first, _, last = each.partition("-")
        if int(first) <= port <= int(last or first):
            return True
    return False


def joined(reserved: str, port: int) -> str:
    return f"{reserved},{port}" if reserved else str(port)
