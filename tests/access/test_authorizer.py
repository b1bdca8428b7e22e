"""The authorizer decides as Kafka's words say: an oracle of a few lines, and what goes beyond."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest

from appliance.access.acls import Acl, Operation, PatternType, PermissionType, ResourceType
from appliance.access.authorizer import Authorizer
from appliance.access.principal import Principal

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
DENY, ALLOW = PermissionType.DENY, PermissionType.ALLOW
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
ANN, BOB = Principal("User", "ann"), Principal("User", "bob")
HOME, AWAY = "10.0.0.1", "10.0.0.2"

# The oracle: Kafka's documents, section "Authorization and ACLs", sentence by sentence

IMPLYING = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}


def is_about(acl: Acl, resource_type: int, name: str) -> bool:
    if acl.resource_type != resource_type:
        return False
    if acl.pattern_type == PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in (name, "*")


def applies(acl: Acl, who: Principal, host: str, operation: Operation) -> bool:
    operations = {operation, Operation.ALL}
    if acl.permission_type == ALLOW:
        operations |= IMPLYING.get(operation, set())
    return (
        acl.principal in (str(who), "User:*")
        and acl.host in (host, "*")
        and acl.operation in operations
    )


def oracle(
    acls: Iterable[Acl], everyone: bool, who: Principal, host: str, operation: Operation,
    resource_type: int, name: str,
) -> bool:  # fmt: skip
    about = [each for each in acls if is_about(each, resource_type, name)]
    said = {each.permission_type for each in about if applies(each, who, host, operation)}
    if said:
        return DENY not in said
    return everyone and not about


# Names and prefixes that meet one another, and a name that is a pattern
NAMES = ["a", "ab", "abc", "abd", "b", "ba", "*", "*a", "hardcode"]
PRINCIPALS = [ANN, BOB, Principal("User", "*"), Principal("Group", "ann")]
HOSTS = [HOME, AWAY, "*"]


def some_acl(dice: random.Random) -> Acl:
    resource_type = dice.choice([TOPIC, TOPIC, GROUP])
    return Acl(
        resource_type, dice.choice(NAMES), dice.choice([LITERAL, PREFIXED]),
        str(dice.choice(PRINCIPALS)), dice.choice(HOSTS), dice.choice(list(Operation)),
        dice.choice([ALLOW, ALLOW, DENY]),
    )  # fmt: skip


def questions() -> Iterator[tuple[Principal, str, Operation, ResourceType, str]]:
    for who in (ANN, BOB, Principal("Group", "ann")):
        for host in (HOME, AWAY):
            for operation in (READ, WRITE, DESCRIBE, Operation.DESCRIBE_CONFIGS):
                for resource_type in (TOPIC, GROUP, CLUSTER):
                    for name in NAMES:
                        yield who, host, operation, resource_type, name


@pytest.mark.parametrize("everyone", [False, True])
@pytest.mark.parametrize("seed", range(25))
def test_rules_that_come_and_go_decide_as_kafkas_words_do(seed: int, everyone: bool) -> None:
    dice = random.Random(seed)
    authorizer = Authorizer(True, allows_everyone=everyone)
    acls: set[Acl] = set()
    for _ in range(6):
        added = {some_acl(dice) for _ in range(dice.randrange(8))} - acls
        removed = {each for each in sorted(acls) if dice.random() < 0.3}
        authorizer.change(added, removed)
        acls = acls - removed | added
        for each in dice.sample(list(questions()), 150):
            assert authorizer.allows(*each) == oracle(acls, everyone, *each), (each, acls)
            assert authorizer.decide(*each).is_allowed == oracle(acls, everyone, *each)


@pytest.mark.parametrize("seed", range(25))
def test_the_rule_that_is_named_as_the_reason_alone_decides_the_same(seed: int) -> None:
    dice = random.Random(seed)
    authorizer = Authorizer(True)
    authorizer.change(acls := {some_acl(dice) for _ in range(12)}, ())
    for who, host, operation, resource_type, name in questions():
        found = authorizer.decide(who, host, operation, resource_type, name)
        if found.acl is not None:
            assert found.acl in acls
            assert is_about(found.acl, resource_type, name)
            assert applies(found.acl, who, host, operation)
            assert (found.acl.permission_type == ALLOW) == found.is_allowed
        else:
            assert not found.is_allowed


@pytest.mark.parametrize("seed", range(40))
def test_any_resource_is_one_that_the_rules_leave_a_name_for(seed: int) -> None:
    """A name that no rule denies and one allows: by every pattern with a few letters behind it. As
    in Kafka prefixes beside `*` are not looked at: who may write to all may begin."""
    dice = random.Random(seed)
    acls = {some_acl(dice) for _ in range(dice.randrange(1, 9))}
    authorizer = Authorizer(True)
    authorizer.change(acls, ())
    for who in (ANN, BOB):
        names = {f"{each}{tail}" for each in NAMES for tail in ("", "z", "zz")} | {"q"}
        names.discard("*")
        expected = any(oracle(acls, False, who, HOME, WRITE, TOPIC, each) for each in names)
        assert authorizer.allows_any(who, HOME, WRITE, TOPIC) == expected, acls


def acl(
    name: str, operation: Operation = READ, permission: PermissionType = ALLOW, *,
    pattern: PatternType = LITERAL, who: str = "User:ann", host: str = "*",
    resource_type: ResourceType = TOPIC,
) -> Acl:  # fmt: skip
    return Acl(resource_type, name, pattern, who, host, operation, permission)


def may(authorizer: Authorizer, name: str, operation: Operation = READ, host: str = HOME) -> bool:
    return authorizer.allows(ANN, host, operation, TOPIC, name)


def test_where_nothing_is_enforced_everything_is_allowed() -> None:
    authorizer = Authorizer()
    authorizer.change([acl("a", permission=DENY)], ())
    assert may(authorizer, "a")
    assert authorizer.allows_any(ANN, HOME, WRITE, TOPIC)


def test_super_users_and_administrators_may_what_is_denied() -> None:
    authorizer = Authorizer(True, {"User:ann"})
    authorizer.change([acl("*", Operation.ALL, DENY, who="User:*")], ())
    assert may(authorizer, "a")
    assert not authorizer.allows(BOB, HOME, READ, TOPIC, "a")
    before = authorizer.generation
    authorizer.set_administrators(["bob"])
    assert authorizer.generation == before + 1
    assert authorizer.allows(BOB, HOME, READ, TOPIC, "a")
    assert authorizer.allows_any(BOB, HOME, WRITE, TOPIC)
    authorizer.set_administrators(["bob"])
    assert authorizer.generation == before + 1
    authorizer.set_administrators([])
    assert not authorizer.allows(BOB, HOME, READ, TOPIC, "a")


def test_every_change_moves_the_generation_and_is_told_after_it_is_in_force() -> None:
    authorizer = Authorizer(True)
    told: list[tuple[int, bool]] = []
    authorizer.on_change(lambda generation: told.append((generation, may(authorizer, "a"))))
    first = authorizer.generation
    authorizer.change([acl("a")], ())
    authorizer.change((), [acl("a")])
    assert told == [(first + 1, True), (first + 2, False)]


def test_what_may_be_done_to_any_resource_is_asked_anew_after_a_change() -> None:
    authorizer = Authorizer(True)
    assert not authorizer.allows_any(ANN, HOME, WRITE, TOPIC)
    authorizer.change([acl("a", WRITE)], ())
    assert authorizer.allows_any(ANN, HOME, WRITE, TOPIC)
    authorizer.change([acl("a", WRITE, DENY)], ())
    assert not authorizer.allows_any(ANN, HOME, WRITE, TOPIC)


def test_allowed_operations_are_those_that_are_allowed_one_by_one() -> None:
    authorizer = Authorizer(True)
    authorizer.change([acl("a", READ), acl("a", Operation.ALTER_CONFIGS)], ())
    wanted = [READ, DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS]
    found = authorizer.allowed_operations(ANN, HOME, list(Operation), TOPIC, "a")
    assert found == sum(1 << each for each in wanted)


@pytest.mark.parametrize(("name", "rule"), [
    ("orders", acl("orders")),
    ("orders-2024", acl("orders-", pattern=PREFIXED)),
    ("anything", acl("*")),
])
def test_a_reason_names_its_rule(name: str, rule: Acl) -> None:
    authorizer = Authorizer(True)
    authorizer.change([rule, acl("other")], ())
    assert authorizer.decide(ANN, HOME, READ, TOPIC, name) == (True, "a rule allows it", rule)
    assert authorizer.decide(ANN, HOME, DESCRIBE, TOPIC, name).acl == rule
    denied = acl("*", permission=DENY, who="User:*", host=HOME)
    authorizer.change([denied], ())
    assert authorizer.decide(ANN, HOME, READ, TOPIC, name) == (False, "a rule denies it", denied)
    assert authorizer.decide(ANN, AWAY, READ, TOPIC, name).is_allowed


def test_a_decision_costs_the_same_with_a_hundred_times_as_many_rules() -> None:
    """Of others, of the principal's own, and of everybody; a scan would be a hundred times slower,
    and is let be five times."""
    few, many = (ruled(count) for count in (1_000, 100_000))
    costs = [(seconds_of_one(few), seconds_of_one(many)) for _ in range(20)]
    best = [min(each) for each in zip(*costs, strict=True)]  # the machine has other things to do
    assert best[1] < 5 * best[0], best


def ruled(count: int) -> Authorizer:
    authorizer = Authorizer(True, allows_everyone=True)
    authorizer.change(
        [acl(f"t{i}", who=f"User:u{i}") for i in range(count // 4)]
        + [acl(f"t{i}") for i in range(count // 4)]
        + [acl(f"p{i}", pattern=PREFIXED) for i in range(count // 4)]
        + [acl("shared", who=f"User:u{i}", host=f"10.{i}") for i in range(count // 4)],
        (),
    )
    return authorizer


def seconds_of_one(authorizer: Authorizer) -> float:
    began = time.thread_time()
    for _ in range(100):
        for each in ("t1", "p1-a", "shared", "nothing"):
            may(authorizer, each)
    return (time.thread_time() - began) / 400


# Roles, which Kafka does not have


def topic_rule(who: Principal, permission: PermissionType, operation: Operation, name: str) -> Acl:
    return Acl(TOPIC, name, LITERAL, str(who), "*", operation, permission)


def test_a_role_allows_what_no_rule_denies() -> None:
    authorizer = Authorizer(is_enforced=True)
    authorizer.set_roles({"ann": ("operator", False), "bob": ("viewer", True)})
    assert authorizer.allows(ANN, HOME, WRITE, TOPIC, "a")
    assert not authorizer.allows(ANN, HOME, READ, TOPIC, "a")
    assert authorizer.allows(BOB, HOME, READ, TOPIC, "a")
    assert not authorizer.allows(BOB, HOME, WRITE, TOPIC, "a")
    assert not authorizer.allows(BOB, HOME, READ, GROUP, "a")  # who reads a group commits for it
    assert not authorizer.allows(BOB, HOME, READ, TOPIC, "a", without_role=True)
    authorizer.change([topic_rule(BOB, DENY, READ, "a")], [])
    assert not authorizer.allows(BOB, HOME, READ, TOPIC, "a")
    assert authorizer.allows(BOB, HOME, READ, TOPIC, "b")
    authorizer.change([topic_rule(BOB, ALLOW, READ, "b")], [])
    assert authorizer.allows(BOB, HOME, READ, TOPIC, "b", without_role=True)


def test_a_role_is_no_rule_about_a_resource() -> None:
    authorizer = Authorizer(is_enforced=True, allows_everyone=True)
    authorizer.set_roles({"ann": ("operator", True)})
    assert authorizer.allows(BOB, HOME, WRITE, TOPIC, "a")


def test_another_role_makes_older_decisions_worthless() -> None:
    authorizer, told = Authorizer(is_enforced=True), list[int]()
    authorizer.on_change(told.append)
    authorizer.set_roles({"ann": ("none", True)})
    assert told == []
    authorizer.set_roles({"ann": ("viewer", True)})
    authorizer.set_roles({"ann": ("viewer", True)})
    authorizer.set_roles({"ann": ("viewer", False)})
    assert len(told) == 2


def test_every_name_is_allowed_only_if_none_is_denied() -> None:
    authorizer = Authorizer(is_enforced=True, allows_everyone=True)
    assert not authorizer.allows_every(ANN, HOME, DESCRIBE, TOPIC)  # a rule may come by anybody
    authorizer.set_roles({"ann": ("viewer", True)})
    assert authorizer.allows_every(ANN, HOME, DESCRIBE, TOPIC)
    authorizer.change([topic_rule(Principal("User", "*"), DENY, DESCRIBE, "a")], [])
    assert not authorizer.allows_every(ANN, HOME, DESCRIBE, TOPIC)
    assert authorizer.allows_every(ANN, HOME, READ, TOPIC)
    authorizer.change([topic_rule(BOB, ALLOW, READ, "*")], [])
    assert authorizer.allows_every(BOB, HOME, READ, TOPIC)
    assert not authorizer.allows_every(BOB, HOME, WRITE, TOPIC)


def test_a_prefix_of_a_star_is_not_every_name() -> None:
    authorizer = Authorizer(is_enforced=True)
    prefix = replace(topic_rule(ANN, ALLOW, READ, "*"), pattern_type=PREFIXED)
    authorizer.change([prefix], [])
    assert not authorizer.allows_every(ANN, HOME, READ, TOPIC)
    # as an export of a pattern asks
    assert not authorizer.allows(ANN, HOME, READ, TOPIC, "*", is_every=True)
    assert not authorizer.allows(ANN, HOME, READ, TOPIC, "orders")
    assert authorizer.allows(ANN, HOME, READ, TOPIC, "*orders")
    authorizer.change([topic_rule(ANN, ALLOW, READ, "*")], [])
    assert authorizer.allows_every(ANN, HOME, READ, TOPIC)
    assert authorizer.allows(ANN, HOME, READ, TOPIC, "*", is_every=True)
