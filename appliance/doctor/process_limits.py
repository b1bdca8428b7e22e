"""Advice on what a process may have: descriptors, memory maps, threads."""

from __future__ import annotations

import re
from collections.abc import Iterator

from appliance.config import BrokerConfig
from appliance.data_dir import descriptor_budget
from appliance.doctor.check import Check, sysctl
from appliance.machine.kernel_files import KernelFiles, text_in

MAPS_MIN = 65_530  # Linux' default; 10,000 partitions take 650
_OPEN_FILES = re.compile(r"^Max open files\s+(\S+)\s+(\S+)", re.MULTILINE)


def checks(kernel: KernelFiles, config: BrokerConfig) -> Iterator[Check]:
    yield descriptors(kernel, config)
    yield maps(kernel)


def descriptors(kernel: KernelFiles, config: BrokerConfig) -> Check:
    why = "each client and each partition in use has one; the broker raises its own limit to this"
    fix = "`LimitNOFILE=` in the unit of the service, `ulimit -Hn` in a shell"
    found = _OPEN_FILES.search(text_in(kernel.proc / "self" / "limits"))
    if found is None:
        return Check("descriptors", "unknown", "the limit is not told", why, fix)
    hard = descriptor_budget.NO_LIMIT if found[2] == "unlimited" else int(found[2])
    wanted = config.network.max_connections
    try:
        shares = descriptor_budget.shares(hard, wanted, config.admin.connections_max)
    except descriptor_budget.DescriptorsTooFew as error:
        return Check("descriptors", "degraded", str(error), why, fix)
    text = f"{hard} for a process here: {shares.clients} of {wanted} clients, {shares.logs} files"
    verdict = "ok" if shares.clients >= wanted else "advice"
    return Check("descriptors", "ok", text, why) if verdict == "ok" else Check(
        "descriptors", "advice", text, why, fix
    )  # fmt: skip


def maps(kernel: KernelFiles) -> Check:
    most = kernel.number("proc/sys/vm/max_map_count")
    why = "each thread's stack and each library takes some"
    if most is None or most >= MAPS_MIN:
        return Check("memory maps", "ok", f"vm.max_map_count {most}", why)
    fix, change = sysctl("vm.max_map_count", 262_144)
    return Check("memory maps", "advice", f"vm.max_map_count {most}", why, fix, (change,))
