"""The doctor over REST: all checks of the machine, what its disk does in a row, and the history of
its disks."""

from __future__ import annotations

import asyncio
from typing import TypedDict

from appliance.admin.body_schema import row_of
from appliance.admin.rights import DESCRIBE_CLUSTER
from appliance.admin.route import ADMIN, Call, get, post
from appliance.doctor.check import CheckRow, row, sentence, worst_first
from appliance.errors import Refused
from appliance.machine.disk_report import Point
from appliance.machine.watch import Machine
from appliance.protocol import ErrorCode


class ThroughputNow(TypedDict):
    """Bytes a second."""

    linear_writes: float
    random_writes: float
    linear_reads: float
    random_reads: float


class DiskPoint(TypedDict):
    at_ms: int
    temperature_c: int | None
    pending_sectors: int | None
    reallocated_sectors: int | None
    wear_percent: int | None


class DiskHistory(TypedDict):
    disk: str
    model: str
    points: list[DiskPoint]  # one an hour, the oldest first


class DoctorAnswer(TypedDict):
    sentence: str
    checks: list[CheckRow]  # the worst first
    throughput: ThroughputNow | None  # None: nobody has asked for it since the start
    disks: list[DiskHistory]  # as the disk watch tells


async def get_doctor(call: Call) -> DoctorAnswer:
    # only now: a start of the broker has no use for the checks
    from appliance.doctor import examination

    watch, config = call.process.watch, call.process.config
    machine = watch.machine
    found_here = await asyncio.to_thread(examination.checks, machine, config)
    checks = worst_first([*found_here, *examination.beside(watch.beside, found_here)])
    found = machine.throughput
    return {
        "sentence": sentence(checks),
        "checks": [row(each) for each in checks],
        "throughput": None if found is None else row_of(ThroughputNow, found),
        "disks": histories(machine),
    }


def histories(machine: Machine) -> list[DiskHistory]:
    report = machine.disk_report
    return [
        {
            "disk": each.name,
            "model": each.model,
            "points": [point_row(one) for one in report.history.get(each.name, [])],
        }
        for each in report.disks
    ]


def point_row(point: Point) -> DiskPoint:
    return row_of(DiskPoint, point)


class Measurement(TypedDict):
    seconds: float  # in all


SECONDS_MIN, SECONDS_MAX = 0.1, 60.0


async def measure(call: Call) -> DoctorAnswer:
    """One at a time: two would measure each other."""
    seconds = call.body["seconds"]
    if not SECONDS_MIN <= seconds <= SECONDS_MAX:
        text = f"seconds: got {seconds}, wanted {SECONDS_MIN} to {SECONDS_MAX}"
        raise Refused(ErrorCode.INVALID_REQUEST, text)
    machine = call.process.watch.machine
    if machine.is_being_measured:
        text = "somebody measures the disk now: wait ten seconds"
        raise Refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED, text)
    machine.is_being_measured = True
    try:
        await asyncio.to_thread(machine.measure_syncs)
        await asyncio.to_thread(
            machine.measure_throughput, seconds, is_wanted=lambda: machine.is_being_measured
        )
    except OSError as error:
        text = f"the disk cannot be measured in {machine.directory}: {error.strerror}"
        raise Refused(ErrorCode.KAFKA_STORAGE_ERROR, text) from error
    finally:
        machine.is_being_measured = False
    return await get_doctor(call)


ROUTES = [
    get(
        "/doctor",
        get_doctor,
        DoctorAnswer,
        "All checks of the machine: verdict, why it matters, and the command that mends it.",
        rights=(DESCRIBE_CLUSTER,),
    ),
    post(
        "/doctor/measure",
        measure,
        DoctorAnswer,
        "Measure the disk: syncs, and writes in a row against those at random places. It slows the "
        "broker's own writes meanwhile.",
        role=ADMIN,
        body=Measurement,
    ),
]
