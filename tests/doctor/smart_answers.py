"""What smartctl prints as JSON, as its source has it (ataprint, nvmeprint, smartctl.cpp)."""

from __future__ import annotations

from typing import Any

VERSION = {"json_format_version": [1, 0]}


def head(arguments: list[str], status: int, *messages: str) -> dict[str, Any]:
    said = [{"string": each, "severity": "error"} for each in messages]
    told = {"messages": said} if said else {}
    return VERSION | {
        "smartctl": {
            "version": [7, 4],
            "pre_release": False,
            "svn_revision": "5530",
            "platform_info": "x86_64-linux-6.1.0-31-amd64",
            "build_info": "(local build)",
            "argv": ["smartctl", "--json=c", *arguments],
            **told,
            "exit_status": status,
        }
    }


SCAN = head(["--scan-open"], 0) | {
    "devices": [
        {"name": "/dev/sda", "info_name": "/dev/sda [SAT]", "type": "sat", "protocol": "ATA"},
        {"name": "/dev/sdb", "info_name": "/dev/sdb [SAT]", "type": "sat", "protocol": "ATA"},
        {"name": "/dev/nvme0", "info_name": "/dev/nvme0", "type": "nvme", "protocol": "NVMe"},
        {"name": "/dev/bus/0", "info_name": "/dev/bus/0 [megaraid_disk_03]",
         "type": "megaraid,3", "protocol": "SCSI"},
        {"name": "/dev/sdz", "info_name": "/dev/sdz", "type": "scsi", "protocol": "SCSI",
         "open_error": "No such device"},
    ]
}  # fmt: skip


def attribute(
    number: int, name: str, raw: int, value: int = 100, thresh: int = 0, failed: str = ""
) -> dict[str, Any]:
    return {
        "id": number, "name": name, "value": value, "worst": value, "thresh": thresh,
        "when_failed": failed,
        "flags": {"value": 51, "string": "PO--CK ", "prefailure": True, "updated_online": True,
                  "performance": False, "error_rate": False, "event_count": True,
                  "auto_keep": True},
        "raw": {"value": raw, "string": str(raw)},
    }  # fmt: skip


def ata(device: str, serial: str, attributes: list[dict[str, Any]], **facts: Any) -> dict[str, Any]:
    passed, status = facts.pop("passed", True), facts.pop("status", 0)
    return head(["-n", "standby", "-a", "-d", "sat", f"/dev/{device}"], status) | {
        "device": {"name": f"/dev/{device}", "info_name": f"/dev/{device} [SAT]", "type": "sat",
                   "protocol": "ATA"},
        "model_family": "Seagate Enterprise Capacity 3.5 HDD",
        "model_name": "ST4000NM0035-1V4107",
        "serial_number": serial,
        "wwn": {"naa": 5, "oui": 3152, "id": 2767236225},
        "firmware_version": "TNC3",
        "user_capacity": {"blocks": 7814037168, "bytes": 4000787030016},
        "logical_block_size": 512,
        "physical_block_size": 512,
        "rotation_rate": 7200,
        "form_factor": {"ata_value": 2, "name": "3.5 inches"},
        "in_smartctl_database": True,
        "smart_status": {"passed": passed},
        "ata_smart_data": {
            "self_test": {"status": {"value": 0, "string": "completed without error",
                                     "passed": True}},
        },
        "ata_smart_attributes": {"revision": 10, "table": attributes},
        "power_on_time": {"hours": 20144},
        "power_cycle_count": 31,
        "temperature": {"current": 34},
    } | facts  # fmt: skip


WELL = ata("sda", "ZC11", [
    attribute(5, "Reallocated_Sector_Ct", 0, thresh=10),
    attribute(187, "Reported_Uncorrect", 0),
    attribute(190, "Airflow_Temperature_Cel", 572653602, 66, 40),
    attribute(197, "Current_Pending_Sector", 0),
    attribute(198, "Offline_Uncorrectable", 0),
    attribute(199, "UDMA_CRC_Error_Count", 0),
])  # fmt: skip

# Exit code: 8 it is failing, 16 an attribute is below its threshold, 64 its log has errors.
FAILING = ata("sdb", "ZC12", [
    attribute(5, "Reallocated_Sector_Ct", 65528, 5, 10, "now"),
    attribute(187, "Reported_Uncorrect", 112, 1),
    attribute(197, "Current_Pending_Sector", 48, 98),
    attribute(198, "Offline_Uncorrectable", 48, 98),
    attribute(199, "UDMA_CRC_Error_Count", 0x0001_0000_0003, 200),
], passed=False, status=88, temperature={"current": 63},
   ata_smart_data={"self_test": {"status": {
       "value": 121, "string": "completed: read failure", "passed": False}}})  # fmt: skip

NVME = head(["-n", "standby", "-a", "-d", "nvme", "/dev/nvme0"], 0) | {
    "device": {"name": "/dev/nvme0", "info_name": "/dev/nvme0", "type": "nvme",
               "protocol": "NVMe"},
    "model_name": "SAMSUNG MZVL21T0HCLR-00B00",
    "serial_number": "S676NF0R912345",
    "firmware_version": "GXA7601Q",
    "nvme_composite_temperature_threshold": {"warning": 81, "critical": 85},
    "temperature": {"op_limit_max": 81, "critical_limit_max": 85, "current": 41},
    "smart_support": {"available": True, "enabled": True},
    "smart_status": {"passed": True, "nvme": {"value": 0}},
    "nvme_smart_health_information_log": {
        "nsid": -1, "critical_warning": 0, "temperature": 41, "available_spare": 100,
        "available_spare_threshold": 10, "percentage_used": 3, "data_units_read": 1234567,
        "data_units_written": 7654321, "host_reads": 1, "host_writes": 2,
        "controller_busy_time": 312, "power_cycles": 40, "power_on_hours": 8123,
        "unsafe_shutdowns": 12, "media_errors": 0, "num_err_log_entries": 0,
        "warning_temp_time": 0, "critical_comp_time": 0, "temperature_sensors": [41, 50]},
    "spare_available": {"current_percent": 100, "threshold_percent": 10},
    "endurance_used": {"current_percent": 3},
    "power_cycle_count": 40,
    "power_on_time": {"hours": 8123},
}  # fmt: skip

SAS = head(["-n", "standby", "-a", "-d", "scsi", "/dev/sdc"], 0) | {
    "device": {"name": "/dev/sdc", "info_name": "/dev/sdc", "type": "scsi", "protocol": "SCSI"},
    "scsi_vendor": "SEAGATE", "scsi_product": "ST4000NM0025", "scsi_revision": "N003",
    "scsi_model_name": "SEAGATE ST4000NM0025",
    "serial_number": "ZC1900AB", "rotation_rate": 7200,
    "smart_status": {"passed": True},
    "temperature": {"current": 31, "drive_trip": 60},
    "power_on_time": {"hours": 30123, "minutes": 12},
    "scsi_grown_defect_list": 4,
    "scsi_error_counter_log": {
        "read": {"errors_corrected_by_eccfast": 12, "total_errors_corrected": 12,
                 "gigabytes_processed": "51234.567", "total_uncorrected_errors": 2},
        "write": {"gigabytes_processed": "9123.456", "total_uncorrected_errors": 0},
        "verify": {"gigabytes_processed": "1.234", "total_uncorrected_errors": 1},
    },
}  # fmt: skip

ASLEEP = head(["-n", "standby", "-a", "-d", "megaraid,3", "/dev/bus/0"], 2,
              "Device is in STANDBY mode, exit(2)")  # fmt: skip
