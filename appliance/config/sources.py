"""Where the values of settings come from, and the table of them all.

Later ones win: the default, a TOML file, the environment (`APPLIANCE_LOG_SEGMENT_BYTES`),
`--set log.segment.bytes=...` and flags.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from appliance.config.broker import PARTS, BrokerConfig, settings
from appliance.config.given_twice import given_twice
from appliance.config.setting import ENVIRONMENT_PREFIX, PARSED, SettingInvalid, settings_of

# read by setup.py, the crash tests and commands: not settings of a running broker
ENVIRONMENT_OF_OTHERS = {"DEBUG", "SANITIZE", "MUTANTS", "MUTANT", "BUILD_TAG", "TOKEN",
                         "TOKEN_FILE", "CA_FILE", "SUCCEEDS"}

OF_LISTENER = "listener.name."
FACTOR = "default.replication.factor"

# Names of versions before, which files of settings may still have
FORMER = {"listen.address": "listeners", "advertised.address": "advertised.listeners"}


@dataclass(frozen=True)
class Given:
    """A value and who gave it, before it is believed."""

    origin: str
    name: str
    value: Any
    is_text: bool = True  # written by a person or a shell; TOML has numbers of its own

    def named_anew(self) -> Given:
        return replace(self, name=FORMER.get(self.name, self.name))

    def split(self) -> tuple[str, str]:
        """The listener that it is for, or "", and the name of the setting.

        In variables of the environment the name of a listener has dots for its underscores, so the
        longest name of a setting at the end counts."""
        if not self.name.lower().startswith(OF_LISTENER):
            return "", self.name
        rest = self.name[len(OF_LISTENER) :]
        own = (name for name, row in settings().items() if row.of_listener)
        found = max((name for name in own if rest.endswith(f".{name}")), key=len, default="")
        if not found:
            raise SettingInvalid(
                f"{self.name}: no such setting of a listener ({self.origin}); wanted "
                f"{OF_LISTENER}<name>.<setting>"
            )
        return rest[: -len(found) - 1].upper().replace(".", "_"), found

    def resolve(self) -> Any:
        name = self.split()[1]
        row = settings().get(name)
        if row is None:
            import difflib  # 3 ms, for who mistypes

            near = difflib.get_close_matches(self.name, settings(), n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise SettingInvalid(f"{self.name}: no such setting ({self.origin}){hint}")
        value = self.value
        if self.is_text or (isinstance(value, str) and row.kind in (Path, *PARSED)):
            value = row.from_text(value)
        elif row.kind is float and type(value) is int:
            value = float(value)
        row.check(value, f"{self.value!r} ({self.origin})")
        return value


def from_file(path: Path) -> Iterator[Given]:
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise SettingInvalid(f"file {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingInvalid(f"file {path}: not TOML: {error}") from error
    pending = list(document.items())
    while pending:
        name, value = pending.pop(0)
        if isinstance(value, dict):
            pending += [(f"{name}.{key}", inner) for key, inner in value.items()]
        else:
            yield Given(f"file {path}", name, value, is_text=False)


def from_environment(environment: Mapping[str, str]) -> Iterator[Given]:
    names = {row.environment: row.name for row in settings().values()}
    for variable, value in sorted(environment.items()):
        key = variable.removeprefix(ENVIRONMENT_PREFIX)
        if key != variable and key not in ENVIRONMENT_OF_OTHERS:
            name = names.get(variable, key.lower().replace("_", "."))
            yield Given(f"environment {variable}", name, value)


def from_pairs(pairs: Iterable[str]) -> Iterator[Given]:
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise SettingInvalid(f"--set {pair}: wanted key=value")
        yield Given("--set", name.strip(), value)


def checked(given: Iterable[Given]) -> list[Given]:
    """Of one command line: also an older name and the one of now are the same."""
    found = [*given]
    if name := given_twice(each.named_anew().name for each in found):
        raise SettingInvalid(f"--set {name}: given twice, wanted once")
    return found


def load(
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    pairs: Iterable[str] = (),
    flags: Mapping[str, str | None] | None = None,
) -> BrokerConfig:
    """The broker's settings from all sources; a flag that was not given is None."""
    told = (
        *(from_file(file) if file else ()),
        *from_environment(environment or {}),
        *checked(from_pairs(pairs)),
        *(Given("flag", name, text) for name, text in (flags or {}).items() if text is not None),
    )
    given = [each.named_anew() for each in told]
    values: dict[str, Any] = {}
    of_listeners: dict[str, dict[str, Any]] = {}
    for each in given:
        listener, name = each.split()
        (of_listeners.setdefault(listener, {}) if listener else values)[name] = each.resolve()
    made = {
        part: {field: values[row.name] for field, row in rows.items() if row.name in values}
        for part, rows in ((part, settings_of(config)) for part, config in PARTS.items())
    }
    parts = {part: PARTS[part](**made[part]) for part in PARTS if part}
    origins = {each.name: each.origin for each in given}
    return BrokerConfig(**made[""], **parts, of_listeners=of_listeners, origins=origins)


def values_of(config: BrokerConfig) -> dict[str, Any]:
    """Every setting's value in force, by name."""
    found = {
        row.name: getattr(getattr(config, part) if part else config, field)
        for part, made in PARTS.items()
        for field, row in settings_of(made).items()
    }
    return found if config.is_in_cluster else {**found, FACTOR: 1}  # whatever is set


def as_markdown() -> str:
    """The settings table of docs/operations.md; a test compares the two."""
    lines = ["| setting | default | accepts | why |", "|---|---|---|---|"]
    for row in settings().values():
        lines.append(f"| `{row.name}` | {row.default_text} | {row.wanted} | {row.reason} |")
    return "\n".join(lines) + "\n"
