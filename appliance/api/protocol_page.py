"""`docs/protocol.md`: the served APIs, from the heads of the handlers; the others with the reason.

`python -m appliance.api.protocol_page` prints it; a test compares the two. A head begins with
the API's name and versions, and ends with a paragraph "Left out:".
"""

from __future__ import annotations

from types import ModuleType

from appliance.api.handlers import HANDLERS, SERVED
from appliance.protocol import API

INTRODUCTION = """\
# The protocol

Kafka's wire protocol as in Apache Kafka 4.3: the broker serves every API below in all versions that
Kafka 4.3 lists, and lists no API that it does not serve. `python -m appliance.api.protocol_page`
prints this page from the heads of `appliance/api/handlers/`; a test compares the two.

Rules for all APIs:

- The data plane, compiled code without the GIL, answers Produce and Fetch;
  `appliance/api/dispatch.py` and the handlers, in Python, answer all others.
- A client may have many requests in flight. They run side by side, and the responses are in the
  order of the requests.
- An unknown API, an unsupported version, and malformed bytes close the connection, as in Kafka. The
  control plane logs the name, the value and the allowed values; the data plane counts them. Only
  ApiVersions gets a response in any version.
- Sizes and counts are compared with the received bytes before memory is allocated.
- Only Produce and Fetch are throttled, by the quotas of AlterClientQuotas; everywhere else
  `throttle_time_ms` is 0.
- Clients log in at listeners that ask for it ([operations.md](operations.md#users-and-logins)). At
  others they are `User:ANONYMOUS`.
- Access rules (ACLs) are enforced as soon as one listener has a login, or `authorizer.class.name`
  is set; until then every client may do everything. Each API says under "Rights" which operations
  it wants on which resources; the error is TOPIC_, GROUP_, CLUSTER_ or
  TRANSACTIONAL_ID_AUTHORIZATION_FAILED. Rights are looked at first, so that a refusal does not
  tell whether what is named exists.

"""

def versions(key: int) -> str:
    first, last = HANDLERS[key].VERSIONS
    return f"{first}-{last}" if first < last else str(first)


def title(key: int) -> str:
    return f"{API[key].name} {versions(key)}"


def body(module: ModuleType) -> str:
    _, _, text = (module.__doc__ or "").partition(": ")
    return text[:1].upper() + text[1:].strip()


def as_markdown() -> str:
    parts = [INTRODUCTION, "## Served\n\n| key | API | versions |\n|---|---|---|\n"]
    for key in sorted(HANDLERS):
        link = f"[{API[key].name}](#{_anchor(title(key))})"
        note = "" if key in SERVED else ", not listed"
        parts.append(f"| {key} | {link} | {versions(key)}{note} |\n")
    parts += [f"\n### {title(key)}\n\n{body(module)}\n" for key, module in sorted(HANDLERS.items())]
    parts.append(
        "\n## Not served\n\nAll APIs of clients of Kafka 4.3 are served. One broker does not need "
        "those between brokers and\ncontrollers of a Kafka cluster (keys 4-7, 52-54, 56, 58, 59, "
        "62, 63, 67, 70, 73, 80-82).\n"
    )
    return "".join(parts)


def _anchor(heading: str) -> str:
    """As a heading is linked to on the usual Markdown sites."""
    return heading.lower().replace(" ", "-")


if __name__ == "__main__":
    print(as_markdown(), end="")
