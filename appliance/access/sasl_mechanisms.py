"""The mechanisms that a listener offers, by name: a row here for each that is served."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from appliance.access.oauthbearer_exchange import OauthbearerExchange
from appliance.access.plain_exchange import PlainExchange
from appliance.access.sasl import Mechanism
from appliance.access.scram_exchange import ScramExchange
from appliance.access.users import UserTable
from appliance.config import AccessConfig
from appliance.config.access import OAUTHBEARER, PLAIN, SCRAM_SHA_256, SCRAM_SHA_512


def of_listener(access: AccessConfig, users: UserTable) -> Mapping[str, Mechanism]:
    """In the order of the setting."""
    return {name: MAKERS[name](access, users) for name in access.mechanisms.all}


def _scram(number: int, access: AccessConfig, users: UserTable) -> Mechanism:
    return lambda: ScramExchange(number, users.to_log_in)


def _plain(access: AccessConfig, users: UserTable) -> Mechanism:
    return lambda: PlainExchange(users.to_check)


def _oauthbearer(access: AccessConfig, users: UserTable) -> Mechanism:
    from appliance.access.tokens import Tokens  # with cryptography, which few brokers need

    tokens = Tokens(access)
    return lambda: OauthbearerExchange(tokens.verify)


MAKERS: dict[str, Callable[[AccessConfig, UserTable], Mechanism]] = {
    SCRAM_SHA_256: partial(_scram, 1),
    SCRAM_SHA_512: partial(_scram, 2),
    PLAIN: _plain,
    OAUTHBEARER: _oauthbearer,
}
