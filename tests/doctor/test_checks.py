"""Single rules of the doctor that recorded machines do not reach."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from appliance.config import BrokerConfig, load
from appliance.doctor import (
    array_shape,
    disk_queues,
    examination,
    kernel,
    known_bugs,
    layers,
    memory_settings,
    network,
    tls,
)
from appliance.doctor.check import Check
from appliance.doctor.known_bugs import BUGS
from appliance.machine import expected_mounts, sync_rate
from appliance.machine.believed_time import WallClock, wall_now_ms
from appliance.machine.believed_time_file import BelievedClock
from appliance.machine.hardware_clock import HardwareClock
from tests.doctor.machines import Recorded, machine_of
from tests.support.certificates import Authority

NOW_S = 1_764_093_600.0


def named(checks: list[Check], name: str) -> Check:
    (found,) = [each for each in checks if each.name == name]
    return found


VERSIONS = {
    "6.1.0-13-amd64": ((6, 1, 0), ()),
    "6.1.64": ((6, 1, 64), ("ext4",)),
    "6.3.3-arch1-1": ((6, 3, 3), ("xfs",)),
    "4.19.7": ((4, 19, 7), ("any",)),
    "5.1.4-1-ARCH": ((5, 1, 4), ("volume",)),
    "3.10.0-1160.el7.x86_64": ((3, 10, 0), ("any",)),
    "6.1.66": ((6, 1, 66), ()),
}


@pytest.mark.parametrize(("release", "wanted"), VERSIONS.items(), ids=VERSIONS)
def test_bugs_are_found_by_version_and_by_what_is_used(
    release: str, wanted: tuple[tuple[int, int, int], tuple[str, ...]]
) -> None:
    version = known_bugs.version_of(release)
    assert version == wanted[0]
    for kind in ("ext4", "xfs", "volume"):
        bugs = known_bugs.found_in(version, frozenset({kind}))
        assert bool(bugs) == bool({kind, "any"} & set(wanted[1])), kind


def test_each_bug_has_a_source_and_an_end() -> None:
    assert all(each.source and each.since < each.mended for each in BUGS)


ADVICE = {
    "swap": "proc/swaps = Filename\\n/dev/sda2 partition 8388604 0 -2",
    "overcommit": "proc/sys/vm/overcommit_memory = 2",
    "huge pages": "sys/kernel/mm/transparent_hugepage/enabled = [always] madvise never",
    "numa": "sys/devices/system/node/node1/distance = 20\nproc/sys/vm/zone_reclaim_mode = 1",
    "dirty limits": "proc/sys/vm/dirty_background_bytes = 8589934592",
    "clock source": "sys/devices/system/clocksource/clocksource0/current_clocksource = hpet",
    "frequency": "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor = powersave",
    "kernel syncfs": "proc/sys/kernel/osrelease = 5.4.0-100-generic",
    "net.core.somaxconn": "proc/sys/net/core/somaxconn = 128",
    "network backlog": "proc/net/softnet_stat = 00b60974 0000001f 00000002",
    "listen queue": "proc/net/netstat = TcpExt: ListenOverflows\\nTcpExt: 12",
    "port admin": "proc/sys/net/ipv4/ip_local_port_range = 1024 60999",
    "read-ahead md0": "sys/block/md0/queue/read_ahead_kb = 128",
    "scheduler sda": "sys/block/sda/queue/scheduler = [none] mq-deadline",
    "queue sda": "sys/block/sda/queue/nr_requests = 2",
    "alignment sda1": "sys/block/sda/sda1/start = 63",
    "raid chunk md0": "sys/block/md0/md/chunk_size = 4096",
    "raid bitmap md0": "sys/block/md0/md/bitmap/location = none",
}


@pytest.mark.parametrize(("name", "then"), ADVICE.items(), ids=ADVICE)
def test_what_could_be_better_is_advice(name: str, then: str, tmp_path: Path) -> None:
    assert (
        named(advice_of(tmp_path / "1", ""), name).verdict == "ok" if name != "kernel syncfs" else 1
    )
    found = named(advice_of(tmp_path / "2", then), name)
    assert (found.verdict, bool(found.fix)) == ("advice", True)


def advice_of(root: Path, then: str) -> list[Check]:
    machine = machine_of(Recorded("raid5", then), root, is_guest=True)
    return [
        *memory_settings.checks(machine),
        *kernel.checks(machine),
        *network.checks(machine.kernel, BrokerConfig(), is_running=False),
        *disk_queues.checks(machine.devices),
        *array_shape.checks(machine),
    ]


VOLUMES = {"snapshot dm-1": "-real", "thin pool dm-1": "-tpool"}


@pytest.mark.parametrize(("name", "end"), VOLUMES.items(), ids=VOLUMES)
def test_what_a_logical_volume_is_made_of(name: str, end: str, tmp_path: Path) -> None:
    machine = machine_of(Recorded("volume_on_luks"), tmp_path, is_guest=True)
    file = tmp_path / "sys/block/dm-1/dm/uuid"
    (plain,) = layers.checks(machine.devices)
    assert plain.found == (
        "volume dm-1 on encrypted dm-0 on array md3 on partition sda1, sdb1 on disk sda, sdb"
    )
    file.write_text(file.read_text().strip() + end + "\n")
    (_, found) = layers.checks(machine.devices)
    assert (found.name, found.verdict) == (name, "advice")


def test_our_own_port_is_no_trouble(tmp_path: Path) -> None:
    machine = machine_of(Recorded("raid10"), tmp_path, is_guest=True)
    tcp = tmp_path / "proc/net/tcp"
    tcp.write_text(tcp.read_text() + "  1: 0100007F:224C 00000000:0000 0A 0:0 0:0 0 0 0 1\n")
    config = BrokerConfig()
    for is_running, verdict in ((True, "ok"), (False, "failing")):
        checks = list(network.ports(machine.kernel, config, is_running=is_running))
        assert named(checks, "port admin").verdict == verdict


def test_a_list_of_reserved_ports_is_understood() -> None:
    assert network.is_within(9093, "8780,9092-9094")
    assert network.is_within(8780, "8780,9092-9094")
    assert not network.is_within(9095, "8780,9092-9094")
    assert not network.is_within(1, "")


def test_a_sync_is_measured_on_this_disk(tmp_path: Path) -> None:
    rate = sync_rate.measure(tmp_path, samples=4)
    assert rate.samples == 4
    assert 0 < rate.median_ms <= rate.slowest_ms
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_without_nameless_files_is_measured_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, seen = os.open, list[str]()

    def refusing(path: object, flags: int, *mode: int) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        if str(path).startswith(str(tmp_path)):  # a broker of other tests may open something, too
            seen.append(str(path))
        return real(path, flags, *mode)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", refusing)
    assert sync_rate.measure(tmp_path, samples=2).samples == 2
    assert [Path(each).parent for each in seen] == [tmp_path]
    assert list(tmp_path.iterdir()) == []


# Mounts that should be there


def expected(root: Path, fstab: str, mounts: str, place: str) -> str | None:
    machine = machine_of(Recorded("nvme"), root, is_guest=True)
    (root / "etc").mkdir(exist_ok=True)
    (root / "etc/fstab").write_text(fstab)
    machine.kernel.mounts.write_text(mounts)
    found = expected_mounts.missing(Path(place), machine.kernel)
    return None if found is None else str(found.place)


ROOT = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
SRV = "23 22 9:0 / /srv rw - ext4 /dev/md0 rw\n"
TABLE = (
    "# comment\nUUID=1 / ext4 defaults 0 1\n/dev/md0 /srv xfs noatime 0 2\nUUID=3 none swap sw\n"
)
MOUNTS = {
    "it is mounted": (TABLE, ROOT + SRV, "/srv/appliance", None),
    "it is not": (TABLE, ROOT, "/srv/appliance", "/srv"),
    "the directory is its place": (TABLE, ROOT, "/srv", "/srv"),
    "another is below": (TABLE, ROOT + SRV.replace("/srv", "/srv/appliance"), "/srv/appliance/x",
                         None),
    "it is elsewhere": (TABLE, ROOT, "/var/lib/appliance", None),
    "it is not mounted by itself": (TABLE.replace("noatime", "noauto"), ROOT, "/srv/a", None),
    "nothing is known": ("", ROOT, "/srv", None),
    "its name has a space": ("/dev/md0 /my\\040disks xfs", ROOT, "/my disks/a", "/my disks"),
}  # fmt: skip


@pytest.mark.parametrize(("table", "mounts", "place", "wanted"), MOUNTS.values(), ids=MOUNTS)
def test_what_should_be_mounted(
    tmp_path: Path, table: str, mounts: str, place: str, wanted: str | None
) -> None:
    assert expected(tmp_path, table, mounts, place) == wanted


def test_a_unit_of_systemd_names_a_mount(tmp_path: Path) -> None:
    machine = machine_of(Recorded("nvme"), tmp_path, is_guest=True)
    units = tmp_path / "etc/systemd/system"
    units.mkdir(parents=True)
    (units / "srv.mount").write_text("[Mount]\nWhat=/dev/md0\nWhere=/srv\nType=xfs\n")
    machine.kernel.mounts.write_text(ROOT)
    found = expected_mounts.missing(Path("/srv/a"), machine.kernel)
    assert found == (Path("/srv"), "/dev/md0", "/etc/systemd/system/srv.mount")


# The board's clock

CLOCKS = {
    "right": (NOW_S, NOW_S, 0, 0),
    "no board's clock": (None, NOW_S, 0, 0),
    "an hour of a time zone": (NOW_S + 3600, NOW_S, 0, 0),
    "five hours and a half behind": (NOW_S - 19_800, NOW_S, 0, 0),
    "seven minutes off": (NOW_S + 420, NOW_S, 0, 1),
    "a day off": (NOW_S - 86_400, NOW_S, 0, 1),
    "its battery is empty": (946_684_800, NOW_S, 1, 0),
    "both are wrong": (946_684_800, 946_684_801.0, 2, 0),
    "1970": (None, 12.0, 1, 0),
}


@pytest.mark.parametrize(("board_s", "wall_s", "warnings", "advice"), CLOCKS.values(), ids=CLOCKS)
def test_the_boards_clock(board_s: float | None, wall_s: float, warnings: int, advice: int) -> None:
    found = HardwareClock(None if board_s is None else round(board_s), wall_s)
    assert (len(found.warnings()), len(found.advice())) == (warnings, advice)


# Certificates, and what was believed of the time

CERTIFICATES = {
    "good": (90, "ok", "days left"),
    "ends soon": (20, "degraded", "it expires at"),
    "has ended": (-2, "failing", "it expired at"),
}


@pytest.mark.parametrize(("days", "verdict", "text"), CERTIFICATES.values(), ids=CERTIFICATES)
def test_a_certificate_is_looked_at(tmp_path: Path, days: int, verdict: str, text: str) -> None:
    store = Authority(tmp_path).keystore(days=days)
    settings = ["ssl.keystore.location=" + str(store), "admin.tls=on"]
    (found,) = tls.checks(load(None, {}, settings))
    assert (found.name, found.verdict) == ("certificate server.pem", verdict)
    assert text in found.found


def test_one_that_is_not_there_keeps_the_broker_from_starting(tmp_path: Path) -> None:
    settings = [f"ssl.keystore.location={tmp_path / 'none.pem'}", "admin.tls=on"]
    (found,) = tls.checks(load(None, {}, settings))
    assert (found.verdict, found.why) == ("failing", "the broker does not start with it")


def test_a_clock_behind_what_was_believed_is_told_before_a_start(tmp_path: Path) -> None:
    BelievedClock(tmp_path, WallClock(lambda: wall_now_ms() + 86_400_000)).keep(at_once=True)
    (found,) = examination.of_belief(tmp_path)
    assert (found.verdict, found.area or found.name) == ("degraded", "clock")
    assert "1.0 d before what was believed" in found.found or "24.0 h before" in found.found
