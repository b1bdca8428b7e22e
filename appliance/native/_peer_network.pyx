"""As what an address is counted, wherever peers have limits: of IPv6 one machine has a network of
2^64 addresses (SLAAC, RFC 4862), so all of them are one.

An address of IPv4 counts by itself, also as `::ffff:10.0.0.1`, as a socket of both protocols says.
"""

from libc.stdint cimport uint8_t
from libc.string cimport memcmp, memset
from libcpp.string cimport string

from appliance.native._socket cimport AF_INET, AF_INET6, INET6_ADDRSTRLEN, inet_ntop


cdef extern from "arpa/inet.h" nogil:
    int inet_pton(int family, const char* text, void* address)

cdef enum:
    ADDRESS_BYTES = 16
    NETWORK_BYTES = 8              # of 64 bits
    IPV4_AT = 12                   # in one of IPv6 that stands for one of IPv4

cdef const uint8_t* IPV4_HEAD = <const uint8_t*>b"\0\0\0\0\0\0\0\0\0\0\xff\xff"


# ---- without the GIL ----

cdef string peer_network(const string& peer) noexcept nogil:
    """What is no address of IPv6 is what it is."""
    cdef uint8_t[ADDRESS_BYTES] address
    cdef string plain = peer.substr(0, peer.find(b"%"))  # behind it stands an interface
    cdef string network
    if inet_pton(AF_INET6, plain.c_str(), address) != 1:
        return peer
    if memcmp(address, IPV4_HEAD, IPV4_AT) == 0:
        return _text(AF_INET, address + IPV4_AT)
    memset(address + NETWORK_BYTES, 0, ADDRESS_BYTES - NETWORK_BYTES)
    network = _text(AF_INET6, address)
    network.append(b"/64")
    return network


cdef string _text(int family, const uint8_t* address) noexcept nogil:
    cdef char[INET6_ADDRSTRLEN] text
    cdef string found
    if inet_ntop(family, address, text, INET6_ADDRSTRLEN) != NULL:
        found.assign(<const char*>text)
    return found


# ---- with the GIL ----

def network_of(address: str | None) -> str:
    return peer_network((address or "").encode()).decode()
