"""Delegation tokens: how long they are good, and the key that they are made with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from appliance.config.setting import DAY_MS, HOUR_MS, Part, setting
from appliance.config.tls import NO_FILE

LIFETIME_MS_MAX = 36_500 * DAY_MS  # a time far from the largest number of the protocol


@dataclass(frozen=True)
class DelegationTokensConfig(Part):
    max_lifetime_ms: int = setting(
        "delegation.token.max.lifetime.ms",
        7 * DAY_MS,
        "How long a delegation token can be good at most, however often it is renewed.",
        minimum=1,
        maximum=LIFETIME_MS_MAX,
    )
    expiry_time_ms: int = setting(
        "delegation.token.expiry.time.ms",
        DAY_MS,
        "How long a delegation token is good from when it is made or renewed, unless who asks "
        "wants less.",
        minimum=1,
        maximum=LIFETIME_MS_MAX,
    )
    check_interval_ms: int = setting(
        "delegation.token.expiry.check.interval.ms",
        HOUR_MS,
        "How often delegation tokens that are over are removed. They are good for nothing before.",
        minimum=10,
    )
    secret_key_file: Path = setting(
        "delegation.token.secret.key.file",
        NO_FILE,
        "A file with the key that delegation tokens are made with, at least 16 characters. Without "
        "it the broker makes a key and keeps it in the catalog: who has a copy of that can make "
        "the tokens in it again. With another key all tokens from before are void.",
        default_words="a key of the broker's own",
    )
