"""`ssl.principal.mapping.rules`: which part of a certificate's subject is the client's name.

    RULE:pattern/replacement/[LU]    the first whose pattern is that of the whole subject counts;
                                     $1 in the replacement is its first group, L and U make small
                                     and capital letters of the result
    DEFAULT                          the subject as it is

Patterns are RE2's: the time for one is in proportion to the subject, whoever wrote it. It has all
of Java's but references to groups and looks around, which are refused when the rules are read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from appliance.errors import ApplianceError
from appliance.process.patterns import PatternInvalid, compiled

# A part goes up to a slash that has no backslash before it.
RULE = re.compile(
    r"RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?)"
)
GROUP = re.compile(r"\$(\d)|\\(.)")
RULES_MAX = 100  # each is tried for a new connection


class RulesInvalid(ApplianceError):
    """Rules that cannot be read."""

    kafka_code = 40


@dataclass(frozen=True)
class Rule:
    pattern: Any  # None: DEFAULT
    replacement: str = ""
    case: str = ""

    def name_of(self, subject: str) -> str | None:
        if self.pattern is None:
            return subject
        found = self.pattern.fullmatch(subject)
        if found is None:
            return None

        def put(sign: re.Match[str]) -> str:
            return sign[2] if sign[2] else found[int(sign[1])] or ""

        name = GROUP.sub(put, self.replacement)
        return {"L": name.lower(), "U": name.upper()}.get(self.case, name)


class PrincipalMapping:
    def __init__(self, text: str) -> None:
        """RulesInvalid: it cannot be read, and where."""
        self._rules = tuple(rules_in(text.strip() or "DEFAULT"))
        if len(self._rules) > RULES_MAX:
            raise invalid(text, f"{len(self._rules)} rules, wanted at most {RULES_MAX}")

    def name_of(self, subject: str) -> str | None:
        """None: no rule fits."""
        names = (each.name_of(subject) for each in self._rules)
        return next((name for name in names if name is not None), None)


def rules_in(text: str) -> list[Rule]:
    found, at = [], 0
    while True:
        rest = text[at:].lstrip()
        at = len(text) - len(rest)
        if rest.startswith("DEFAULT"):
            found.append(Rule(None))
            at += len("DEFAULT")
        elif (rule := RULE.match(text, at)) is not None:
            found.append(checked(rule))
            at = rule.end()
        else:
            raise invalid(text, f"{rest[:40]!r}, wanted DEFAULT or RULE:pattern/replacement/[LU]")
        rest = text[at:].lstrip()
        if not rest:
            return found
        if not rest.startswith(","):
            raise invalid(text, f"{rest[:40]!r} behind a rule, wanted a comma")
        at = len(text) - len(rest) + 1


def checked(rule: re.Match[str]) -> Rule:
    try:
        pattern = compiled(rule["pattern"])
    except PatternInvalid as error:
        raise invalid(rule[0], str(error)) from error
    wanted = max((int(it[1]) for it in GROUP.finditer(rule["replacement"]) if it[1]), default=0)
    if wanted > pattern.groups:
        raise invalid(rule[0], f"${wanted} in the replacement, and {pattern.groups} groups")
    return Rule(pattern, rule["replacement"], rule["case"])


def invalid(text: str, got: str) -> RulesInvalid:
    return RulesInvalid(f"ssl.principal.mapping.rules: got {got} (in {text[:200]!r})")
