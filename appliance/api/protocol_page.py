"""`docs/protocol.md`: what is served, from the handlers' own head comments; what is not, and why.

`python -m appliance.api.protocol_page` prints it; a test compares the two. A head begins with
the API's name and versions, says what is special, and ends with a paragraph "Left out:".
"""

from __future__ import annotations

from types import ModuleType

from appliance.api.handlers import HANDLERS, SERVED
from appliance.protocol import API

INTRODUCTION = """\
# The protocol

Kafka's wire protocol, as Apache Kafka 4.3 speaks it: every API below is served in all the versions
that Kafka 4.3 lists, and no API is listed that is not served. This page is printed by
`python -m appliance.api.protocol_page` from the heads of `appliance/api/handlers/`; a test
compares the two.

What holds for all of them:

- Produce and Fetch are answered by the data plane, compiled code without the GIL; all else by
  `appliance/api/dispatch.py` and the handlers, in Python.
- A client may have many requests in flight. They are worked on side by side, and answered in the
  order in which they came.
- An unknown API, a version out of range, and bytes that are no message close the connection, as in
  Kafka. The control plane writes into the log which, got and wanted; the data plane counts them.
  ApiVersions alone is answered in any version.
- Sizes and counts are held against the bytes that came before anything is allocated.
- Only Produce and Fetch are throttled, by the quotas of AlterClientQuotas; everywhere else
  `throttle_time_ms` is 0.
- ACLs and SCRAM credentials are kept and shown, and **not enforced**: there are no logins yet,
  every client may do everything, and authorized operations, when asked for, are all that exist.

"""

# APIs of Kafka 4.3 that are not listed to clients, by the reason.
NOT_SERVED: dict[str, tuple[int, ...]] = {
    "There are no logins yet.": (17, 36),
    "The Streams group protocol does not exist yet.": (88, 89),
}  # fmt: skip


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
    parts.append("\n## Not served\n\n| APIs | why |\n|---|---|\n")
    for why, keys in NOT_SERVED.items():
        parts.append(f"| {', '.join(f'{API[key].name} ({key})' for key in keys)} | {why} |\n")
    parts.append(
        "\nWhat brokers and controllers of a Kafka cluster say among themselves (keys 4-7, 52-54, "
        "56, 58, 59,\n62, 63, 67, 70, 73, 80-87) has nobody to say it here.\n"
    )
    return "".join(parts)


def _anchor(heading: str) -> str:
    """As a heading is linked to on the usual Markdown sites."""
    return heading.lower().replace(" ", "-")


if __name__ == "__main__":
    print(as_markdown(), end="")
