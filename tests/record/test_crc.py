"""CRC-32C: every kernel against published answers and against a bit-by-bit reading."""

from __future__ import annotations

import random

import pytest

from appliance import _crc
from tests.support.batch_model import crc32c as bit_by_bit

# Three lanes of the one fast kernel end at 96 bytes (its shortest block) and at 6144 (its longest).
# The other one takes 256 bytes a turn, then 64, from 512 on.
SIZES = [*range(200), 6143, 6144, 6145, 6144 + 95, 6144 + 96, 3 * 6144 + 101, 70_001]


def data_of(size: int) -> bytes:
    return random.Random(size).randbytes(size)


@pytest.mark.parametrize("kernel", _crc.kernels())
@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),  # this and the next two: RFC 3720, B.4
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
    ids=["nothing", "check value", "zeros", "ones", "ascending"],
)
def test_published_answers_come_out(kernel: str, data: bytes, wanted: int) -> None:
    assert _crc.crc32c_with(kernel, data) == wanted


def test_the_portable_kernel_agrees_with_bit_by_bit() -> None:
    for size in (*range(40), 300, 1021):
        assert _crc.crc32c_with("portable-slice8", data_of(size)) == bit_by_bit(data_of(size))


@pytest.mark.parametrize("kernel", _crc.kernels())
def test_all_kernels_agree_at_every_size_and_alignment(kernel: str) -> None:
    for size in SIZES:
        data = data_of(size + 7)
        for skip in range(8):
            part = memoryview(data)[skip : skip + size]
            wanted = _crc.crc32c_with("portable-slice8", part)
            assert _crc.crc32c_with(kernel, part) == wanted, (size, skip)


@pytest.mark.parametrize("kernel", _crc.kernels())
def test_all_kernels_agree_at_every_size_to_4096_wherever_it_starts(kernel: str) -> None:
    rng = random.Random(4096)
    data = memoryview(data_of(4096 + 64))
    for size in range(4097):
        skip, begun = rng.randrange(64), rng.getrandbits(32)
        part = data[skip : skip + size]
        wanted = _crc.crc32c_with("portable-slice8", part, begun)
        assert _crc.crc32c_with(kernel, part, begun) == wanted, (size, skip, begun)


@pytest.mark.parametrize("kernel", _crc.kernels())
def test_a_sum_goes_on_where_it_stopped(kernel: str) -> None:
    data = data_of(3000)
    whole = _crc.crc32c_with(kernel, data)
    for cut in range(0, 3001, 7):
        begun = _crc.crc32c_with(kernel, data[:cut])
        assert _crc.crc32c_with(kernel, data[cut:], begun) == whole


def test_the_kernel_in_use_is_the_first_of_the_list() -> None:
    assert _crc.kernel_name() == _crc.kernels()[0]
    assert _crc.crc32c(data_of(70_001)) == _crc.crc32c_with(_crc.kernel_name(), data_of(70_001))


def test_an_unknown_kernel_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"abacus.*portable-slice8"):
        _crc.crc32c_with("abacus", b"")


def test_none_is_not_data() -> None:
    with pytest.raises(TypeError):
        _crc.crc32c(None)  # type: ignore[arg-type]
