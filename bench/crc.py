"""CRC-32C: GB/s of each kernel by buffer size, and the best against the one-way hardware loop.

    python -m bench.crc

Best of 15 rounds; a round sums about 4 MB. The time includes the call from Python (some 150 ns),
which dominates for small buffers.
"""

from __future__ import annotations

import os
import time

from appliance import _crc

SIZES = (100, 256, 1024, 4096, 16 << 10, 64 << 10, 1 << 20)
ROUNDS = 15
ROUND_SIZE = 4 << 20


def seconds(kernel: str, data: bytes) -> float:
    """Seconds per sum, in the best round."""
    calls = max(1, ROUND_SIZE // len(data))
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(calls):
            _crc.crc32c_with(kernel, data)
        best = min(best, (time.perf_counter() - began) / calls)
    return best


def main() -> None:
    kernels = _crc.kernels()
    print("bytes".rjust(9), *[kernel.rjust(18) for kernel in kernels], "best / one-way".rjust(16))
    for size in SIZES:
        data = os.urandom(size)
        took = {kernel: seconds(kernel, data) for kernel in kernels}
        one_way = next((took[kernel] for kernel in kernels if kernel.endswith("1way")), None)
        gain = f"{one_way / took[kernels[0]]:.2f}" if one_way else "-"
        figures = [f"{size / took[kernel] / 1e9:.1f} GB/s".rjust(18) for kernel in kernels]
        print(str(size).rjust(9), *figures, gain.rjust(16))


if __name__ == "__main__":
    main()
