"""As what a peer's address is counted."""

from __future__ import annotations

import pytest

from appliance.native._peer_network import network_of


@pytest.mark.parametrize(
    ("address", "counted"),
    {
        "IPv4": ("10.0.0.1", "10.0.0.1"),
        "IPv4 at a socket of both": ("::ffff:10.0.0.1", "10.0.0.1"),
        "IPv6": ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        "another of its network": ("2001:DB8:1:2::", "2001:db8:1:2::/64"),
        "another network": ("2001:db8:1:3:3:4:5:6", "2001:db8:1:3::/64"),
        "loopback": ("::1", "::/64"),
        "with an interface": ("fe80::1%eth0", "fe80::/64"),
        "a name": ("box", "box"),
        "nothing": (None, ""),
    }.values(),
)
def test_of_ipv6_a_network_counts_as_one_address(address: str | None, counted: str) -> None:
    assert network_of(address) == counted
