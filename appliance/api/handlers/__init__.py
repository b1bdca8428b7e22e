"""The handlers of requests, one module per API, by the API's key.

A module has `KEY`, the advertised `VERSIONS`, and `handle(broker, request, call)`, sync or async,
from request to response; `fetch` has no handler, because the data plane answers all of them. The
module's head is its section in `docs/protocol.md`: it begins with name and versions, and a
paragraph that begins with "Left out:" lists what is missing. Handlers know messages and the broker;
`dispatch` has sockets, threads and clocks.

Every module of this folder with a `KEY` is served, without a list of them.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

_modules = [import_module(f"{__name__}.{each.name}") for each in iter_modules(__path__)]
_served = sorted((each for each in _modules if hasattr(each, "KEY")), key=lambda each: each.KEY)

HANDLERS: dict[int, ModuleType] = {each.KEY: each for each in _served}

# What ApiVersions lists. Where IS_LISTED is False only those are answered who ask unbidden.
SERVED: dict[int, tuple[int, int]] = {
    key: each.VERSIONS for key, each in HANDLERS.items() if getattr(each, "IS_LISTED", True)
}
