"""CRC-32C (Castagnoli), the checksum of record batches. The kernels and their theory: `_crc.h`."""

from libc.stdint cimport uint8_t, uint32_t

cdef extern from "_crc.h" namespace "appliance_crc" nogil:
    ctypedef uint32_t (*Kernel)(uint32_t crc, const uint8_t* data, size_t size) noexcept nogil
    struct NamedKernel:
        const char* name
        Kernel kernel
    const NamedKernel* list_kernels "appliance_crc::kernels"()

# Set once, while the module is loaded and no other thread can know of it; only read afterwards.
cdef Kernel _best = list_kernels()[0].kernel


# ---- without the GIL ----

cdef uint32_t crc32c(uint32_t crc, const uint8_t* data, size_t size) noexcept nogil:
    return _best(crc, data, size)


# ---- with the GIL ----

# Below this size the sum takes less time than letting the GIL go and taking it back (about 80 ns,
# and up to a whole switch interval when another thread is busy).
cdef enum:
    KEEP_GIL_SIZE = 65536


cdef uint32_t _sum(Kernel kernel, const unsigned char[::1] data, uint32_t crc):
    cdef size_t size = data.shape[0]
    if size == 0:
        return crc
    cdef const uint8_t* at = &data[0]
    if size < KEEP_GIL_SIZE:
        return kernel(crc, at, size)
    with nogil:
        crc = kernel(crc, at, size)
    return crc


def crc32c_of(const unsigned char[::1] data not None, uint32_t crc=0):
    """The CRC-32C of `data`, continuing from `crc`. Importable as `crc32c`."""
    return _sum(_best, data, crc)


def crc32c_with(str kernel not None, const unsigned char[::1] data not None, uint32_t crc=0):
    """The same by a kernel of `kernels()`, to compare them."""
    cdef const NamedKernel* known = list_kernels()
    while known.name != NULL:
        if known.name.decode() == kernel:
            return _sum(known.kernel, data, crc)
        known += 1
    raise ValueError(f"CRC kernel {kernel!r} is not among {kernels()}")


def kernels():
    """The names of the kernels this processor can run, the one in use first."""
    names = []
    cdef const NamedKernel* known = list_kernels()
    while known.name != NULL:
        names.append(known.name.decode())
        known += 1
    return names


def kernel_name():
    return kernels()[0]


# A def of the same name would hide the function that other modules cimport.
globals()["crc32c"] = crc32c_of
