"""All checks of a machine, in their order: state first, advice after it."""

from __future__ import annotations

import fcntl
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from appliance.config import BrokerConfig
from appliance.doctor import (
    array_shape,
    disk_queues,
    file_system_options,
    kernel,
    layers,
    memory_settings,
    network,
    process_limits,
    state,
    tls,
)
from appliance.doctor.check import Check
from appliance.machine.believed_time import WallClock
from appliance.machine.believed_time_file import boot_id, load
from appliance.machine.clock_state import is_kept_right_by_the_kernel, told
from appliance.machine.watch import Machine

LOCK = "lock"


def checks(machine: Machine, config: BrokerConfig) -> list[Check]:
    """Of a machine that has been looked at."""
    files = machine.kernel
    return [
        *state.checks(machine),
        *of_belief(machine.directory),
        *layers.checks(machine.devices),
        *array_shape.checks(machine),
        *disk_queues.checks(machine.devices),
        *file_system_options.checks(machine, config),
        *memory_settings.checks(machine),
        *process_limits.checks(files, config),
        *kernel.checks(machine),
        *network.checks(files, config, is_running=is_in_use(machine.directory)),
        *tls.checks(config),
    ]


def beside(machines: Iterable[Machine], told_already: Sequence[Check]) -> list[Check]:
    """What is wrong below other directories of records; of each disk once."""
    found: list[Check] = []
    for machine in machines:
        for each in state.checks(machine):
            if each.is_wrong and each not in (*told_already, *found):
                found.append(each)
    return found


def measure_syncs(machine: Machine) -> Iterator[Check]:
    """Measures, which takes some seconds on a busy disk; answers only if it cannot."""
    try:
        machine.measure_syncs()
    except OSError as error:
        found = f"a sync cannot be measured in {machine.directory}: {error.strerror}"
        fix = "run it as the broker's user or as root"
        yield Check("write cache", "unknown", found, state.CACHE_WHY, fix)


def of_belief(directory: Path) -> Iterator[Check]:
    """What was believed when a broker last had this directory. A clock that is later than that is
    no news to a machine that was off."""
    remembered = load(directory)
    if remembered is None:
        return
    clock = WallClock(
        is_synchronised=is_kept_right_by_the_kernel, remembered=remembered, boot_id=boot_id()
    )
    doubt = clock.doubt()
    if doubt is not None and not (doubt.way == "ahead" and doubt.has_gap):
        why = "retention, expiry and every timestamp go by it"
        yield Check("clock", "degraded", told(doubt), why, "`timedatectl set-ntp true`")


def is_in_use(directory: Path) -> bool:
    """Whether a broker has it open."""
    try:
        with (directory / LOCK).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
