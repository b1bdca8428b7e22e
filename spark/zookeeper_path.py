"""The appliances that are registered at a path in ZooKeeper.

    /brokers/ids/[id]    host:port, of an appliance for itself
                         a JSON object with `host`, of a broker of a cluster

They register their listeners, not their admin ports. Those are at the same host, at the port that
an appliance has by default, unless an option says otherwise. Only who is up is registered.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from appliance_spark.options import Given, OptionInvalid

IDS = "/brokers/ids"
ADMIN_PORT = 8780
WAIT_S = 10.0
URL_OF = re.compile(r"(\d+)=(https?://[^,\s]+)")
PLAIN = re.compile(r"(?:[^{:]*:)?(\[[^\]]+\]|[\w.-]+):\d+")  # a creator's name may be in front


def appliances_at(given: Given) -> dict[str, str]:
    """Addresses by the id of the broker; of a cluster all of its brokers under no name."""
    path, urls = given.text("zookeeper"), _urls(given.text("zookeeper.admin.urls"))
    nodes = _nodes(path)
    found = {each: _fields(path, each, data) for each, data in sorted(nodes.items())}
    _check_token(given, sorted(found.keys() - urls.keys()))
    made = {each: urls.get(each, f"http://{of['host']}:{ADMIN_PORT}") for each, of in found.items()}
    if not made:
        raise OptionInvalid(f"option zookeeper: no broker is registered at {path}{IDS}")
    if any(of["is_cluster"] for of in found.values()):
        return {"": ",".join(made.values())}
    return {str(each): url for each, url in made.items()}


def _check_token(given: Given, untold: list[int]) -> None:
    """Whoever can write there would name a host of theirs, and be sent the token."""
    if untold and given.token():
        raise OptionInvalid(
            f"option zookeeper: with a token it is the user who says where the brokers are: "
            f"zookeeper.admin.urls has no {', '.join(map(str, untold))}"
        )


def _urls(text: str) -> dict[int, str]:
    words = [each.strip() for each in text.split(",") if each.strip()]
    found = [URL_OF.fullmatch(each) for each in words]
    if not all(found):
        raise OptionInvalid(
            f"option zookeeper.admin.urls: got {text!r}, wanted 2=https://box2:8780,3=…"
        )
    return {int(each[1]): each[2].rstrip("/") for each in found if each}


def _nodes(path: str) -> dict[int, bytes]:
    from kazoo.client import KazooClient
    from kazoo.exceptions import NoNodeError
    from kazoo.handlers.threading import KazooTimeoutError

    servers, _, root = path.partition("/")
    ids = f"/{root}{IDS}" if root else IDS
    client = KazooClient(servers, timeout=WAIT_S)
    try:
        client.start(WAIT_S)
        found = [each for each in client.get_children(ids) if each.isdecimal()]
        return {int(each): client.get(f"{ids}/{each}")[0] for each in found}
    except NoNodeError:
        return {}  # or one has just left
    except (KazooTimeoutError, ValueError) as error:
        raise OptionInvalid(f"option zookeeper: {path}: {error}") from error
    finally:
        client.stop()
        client.close()


def _fields(path: str, broker: int, data: bytes) -> dict[str, Any]:
    """Anybody may write nodes there."""
    text = data.decode("utf-8", "backslashreplace").strip()
    if plain := PLAIN.fullmatch(text):
        return {"host": plain[1], "is_cluster": False}
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        fields = None
    host = fields.get("host") if isinstance(fields, Mapping) else None
    if not isinstance(host, str) or not re.fullmatch(r"[\w.:-]+", host):
        raise OptionInvalid(
            f"option zookeeper: {path}{IDS}/{broker}: wanted a broker's host, got {text[:200]!r}"
        )
    return {"host": f"[{host}]" if ":" in host else host, "is_cluster": True}
