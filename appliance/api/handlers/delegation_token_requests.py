"""What the requests about delegation tokens have in common: who may send them at all."""

from __future__ import annotations

from appliance.access.principal import ANONYMOUS
from appliance.api.handlers.call import Call
from appliance.broker.broker import Broker
from appliance.errors import Refused
from appliance.protocol import ErrorCode

NO_TIME = -1  # in the answer to who is refused


def check_sender(broker: Broker, call: Call) -> None:
    """A token stands for somebody who logged in, and is no way to get another one."""
    config = broker.config
    listener = config.listeners.all[call.listener]
    if not (config.asks_login(listener) or config.is_login(listener)):
        text = f"listener {listener.name} has no logins"
    elif call.principal == ANONYMOUS:
        text = f"{ANONYMOUS} has not logged in"
    elif broker.logins.is_by_token(call.connection):
        text = f"{call.principal} logged in by a delegation token"
    else:
        return
    raise Refused(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, f"{text}: no tokens")
