"""The mechanisms that a listener offers, by name: a row here for each that is served."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from appliance.access.delegation_tokens import DelegationTokens
from appliance.access.oauthbearer_exchange import OauthbearerExchange
from appliance.access.plain_exchange import PlainExchange
from appliance.access.sasl import Mechanism
from appliance.access.scram_exchange import ScramExchange
from appliance.access.users import UserTable
from appliance.config import AccessConfig
from appliance.config.access import OAUTHBEARER, PLAIN, SCRAM_SHA_256, SCRAM_SHA_512


class Known(NamedTuple):
    """Who may log in."""

    users: UserTable
    delegation_tokens: DelegationTokens


def of_listener(access: AccessConfig, known: Known) -> Mapping[str, Mechanism]:
    """In the order of the setting."""
    return {name: MAKERS[name](access, known) for name in access.mechanisms.all}


def _scram(number: int, access: AccessConfig, known: Known) -> Mechanism:
    users, tokens = known
    return lambda: ScramExchange(number, users.to_log_in, tokens.to_log_in)


def _plain(access: AccessConfig, known: Known) -> Mechanism:
    return lambda: PlainExchange(known.users.to_check)


def _oauthbearer(access: AccessConfig, known: Known) -> Mechanism:
    from appliance.access.tokens import Tokens  # with cryptography, which few brokers need

    tokens = Tokens(access, is_withdrawn=known.users.is_withdrawn)
    return lambda: OauthbearerExchange(tokens.verify)


MAKERS: dict[str, Callable[[AccessConfig, Known], Mechanism]] = {
    SCRAM_SHA_256: partial(_scram, 1),
    SCRAM_SHA_512: partial(_scram, 2),
    PLAIN: _plain,
    OAUTHBEARER: _oauthbearer,
}
