"""One flipped bit, in every byte of a small log in turn.

segment      0  1 | 2  3  4  5
recovery point           ^ 3; durable up to 6
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from appliance._log import Log
from appliance.errors import ApplianceError
from appliance.record import _batch
from tests.support.logs import batch, copied, log_config, opened

SETTINGS = {"index_interval_bytes": 0}
POINT, END = 3, 6
BASE = {0: 0, 1: 0, 2: 2, 3: 2, 4: 2, 5: 2}  # of each batch's segment
EPOCH_FIELD = range(12, 16)  # what follows the length, and no CRC covers


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[bytes]]:
    return written(tmp_path_factory.mktemp("flips") / "data", is_durable=True)


@pytest.fixture(scope="module")
def unpromised(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[bytes]]:
    """The same, but durable up to 3 only."""
    return written(tmp_path_factory.mktemp("flips") / "data", is_durable=False)


def written(path: Path, is_durable: bool) -> tuple[Path, list[bytes]]:
    with opened(path, **SETTINGS) as log_dir:
        log = log_dir.create("t", 0, log_config(**SETTINGS))
        for i in range(END):
            if i == 2:
                log.roll()
            if i == POINT:
                log.flush()
                log_dir.checkpoint()
            log.append(batch(f"value {i}"), leader_epoch=5)
        if is_durable:
            log.flush()
        batches = [log.read(i, 1, "end") for i in range(END)]
        log_dir.abandon()
    return path, batches


def flipped(whole: tuple[Path, list[bytes]], target: Path, number: int, byte: int) -> Path:
    source, batches = whole
    data_dir = copied(source, target)
    path = data_dir / "t-0" / f"{BASE[number]:020d}.log"
    data = bytearray(path.read_bytes())
    at = sum(len(each) for each in batches[BASE[number] : number]) + byte
    data[at] ^= 1 << byte % 8
    path.write_bytes(data)
    return data_dir


def is_told(log: Log, offset: int, original: bytes, byte: int) -> bool:
    """A reader of the damaged batch gets an error, or bytes that its CRC check refuses."""
    try:
        data = log.read(offset, 1)
        heads = _batch.headers(data)
    except ApplianceError:
        return True
    if not heads:
        return False  # as at the log end: the reader would wait for ever
    same_but_epoch = data[:12] + data[16:] == original[:12] + original[16:]
    return byte in EPOCH_FIELD and heads[0].base_offset == offset and same_but_epoch


@pytest.mark.parametrize("number", range(POINT))
def test_below_the_recovery_point_the_rest_stays_readable(
    number: int, whole: tuple[Path, list[bytes]], tmp_path: Path
) -> None:
    batches = whole[1]
    wrong = []
    for byte in range(len(batches[number])):
        data_dir = flipped(whole, tmp_path / "data", number, byte)
        with opened(data_dir, **SETTINGS) as log_dir:
            log = log_dir.log("t", 0)
            assert (log.log_start_offset, log.log_end_offset) == (0, END)
            others = [i for i in range(END) if i != number and read(log, i) != batches[i]]
            if others or not is_told(log, number, batches[number], byte):
                wrong.append((byte, others))
            log_dir.abandon()
        shutil.rmtree(data_dir)
    assert wrong == []


def read(log: Log, offset: int) -> bytes:
    try:
        return log.read(offset, 1)
    except ApplianceError as error:
        return str(error).encode()


@pytest.mark.parametrize("number", range(POINT, END))
def test_above_it_what_was_durable_keeps_its_place_around_the_flipped_batch(
    number: int, whole: tuple[Path, list[bytes]], tmp_path: Path
) -> None:
    batches = whole[1]
    wrong = []
    for byte in range(len(batches[number])):
        data_dir = flipped(whole, tmp_path / "data", number, byte)
        with opened(data_dir, **SETTINGS) as log_dir:
            log = log_dir.log("t", 0)
            others = [i for i in range(END) if i != number and read(log, i) != batches[i]]
            # An epoch that was raised cannot be told from a real one: those behind it look stale.
            others = [] if byte in EPOCH_FIELD else others
            told = is_told(log, number, batches[number], byte)
            if log.log_end_offset != END or others or not told:
                wrong.append((byte, log.log_end_offset, others, told))
            log_dir.abandon()
        shutil.rmtree(data_dir)
    assert wrong == []


@pytest.mark.parametrize("number", range(POINT, END))
def test_what_was_not_durable_ends_before_the_flipped_batch(
    number: int, unpromised: tuple[Path, list[bytes]], tmp_path: Path
) -> None:
    batches = unpromised[1]
    for byte in range(len(batches[number])):
        data_dir = flipped(unpromised, tmp_path / "data", number, byte)
        with opened(data_dir, **SETTINGS) as log_dir:
            log = log_dir.log("t", 0)
            end = log.log_end_offset
            # An epoch that was raised cannot be told from a real one; a lower one can.
            assert end == number or (byte in EPOCH_FIELD and end in (number + 1, END))
            assert [log.read(i, 1) for i in range(number)] == batches[:number]
            assert (log_dir.report.cut_bytes > 0) == (end < END)
            log_dir.abandon()
        with opened(data_dir, **SETTINGS) as log_dir:
            assert log_dir.log("t", 0).log_end_offset == end
            assert log_dir.report.cut_bytes == 0
            log_dir.abandon()
        shutil.rmtree(data_dir)


def test_a_flip_in_a_foreign_log_is_found_wherever_it_is(
    whole: tuple[Path, list[bytes]], tmp_path: Path
) -> None:
    """Without a journal every byte is checked: what is damaged is told, the next segment served."""
    batches = whole[1]
    for number in range(2):
        # In a log that may be compacted an offset that is a little too high cannot be told.
        for byte in range(8, len(batches[number])):
            if byte in EPOCH_FIELD:
                continue
            data_dir = flipped(whole, tmp_path / "data", number, byte)
            for journal in data_dir.glob("checkpoint.*"):
                journal.unlink()
            with opened(data_dir, **SETTINGS) as log_dir:
                log = log_dir.log("t", 0)
                assert [log.read(i, 1) for i in range(2, END)] == batches[2:]
                assert [log.read(i, 1) for i in range(number)] == batches[:number]
                assert is_told(log, number, batches[number], byte)
            shutil.rmtree(data_dir)


OPENED = """
import resource, sys
from pathlib import Path
from tests.support.logs import opened
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with opened(Path(sys.argv[1]), index_interval_bytes=0) as log_dir:
    end = log_dir.log("t", 0).log_end_offset
print(end, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("is_durable", [True, False])
def test_what_a_damaged_length_claims_costs_no_memory(tmp_path: Path, is_durable: bool) -> None:
    path, batches = written(tmp_path / "data", is_durable)
    file = path / "t-0" / f"{BASE[POINT]:020d}.log"
    at = sum(len(each) for each in batches[BASE[POINT] : POINT])
    with file.open("r+b") as it:
        it.truncate(128 << 20)
        it.seek(at + 8)
        it.write((100 << 20).to_bytes(4, "big"))
    done = subprocess.run(
        [sys.executable, "-c", OPENED, path], capture_output=True, text=True, check=True
    )
    end, grown_kib = map(int, done.stdout.split())
    assert end == (END if is_durable else POINT)
    assert grown_kib < 24 << 10
