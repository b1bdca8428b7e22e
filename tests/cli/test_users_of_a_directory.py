"""Users of a stopped broker: the first administrator of a machine without a browser."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from appliance.access import scram_keys
from appliance.access.user_rows import UserRows
from appliance.access.users import UserTable
from appliance.catalog.catalog import NAME, Catalog
from appliance.catalog.facts import Facts
from appliance.process.detached_tasks import Changes
from appliance.testing import running_broker
from tests.support.people import logged_in
from tests.support.shell import Shell

PASSWORD = "correct horse battery"
NOBODY = Shell("127.0.0.1:1")  # no broker is asked


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.write_text(f"{PASSWORD}\nsomething else\n")
    return path


def test_the_first_administrator_is_made_before_the_first_start(
    tmp_path: Path, file: Path
) -> None:
    data = tmp_path / "new" / "data"
    line = f"user create ada --password-file {file} --admin --data-dir {data}"
    assert NOBODY.out(line) == "ada created, admin\n"
    assert data.stat().st_mode & 0o777 == 0o700
    assert (data / NAME).stat().st_mode & 0o777 == 0o600
    catalog = Catalog.open(data / NAME)
    rows = UserRows(catalog)
    assert [(each.name, each.role) for each in rows.users()] == [("ada", "admin")]
    assert {each.mechanism for each in rows.credentials()} == {1, 2}
    assert all(scram_keys.fits(each, PASSWORD) for each in rows.credentials())
    catalog.close()
    with running_broker(data) as broker:
        assert broker.setup_secret == ""
        ada = logged_in(broker, "ada", PASSWORD)
        assert ada.get("/session")["role"] == "admin"
        (found,) = ada.get("/users")["users"]
        assert found["kafka"] == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
        made = NOBODY.run(line.replace("ada", "eve", 1))
        assert (made.exit_code, str(data) in made.stderr) == (4, True)
        for words in ("a running broker uses it; stop it first", "leave --data-dir out",
                      "`appliance login`", "setup link"):  # fmt: skip
            assert words in made.stderr


def test_a_user_of_kafka_alone_opens_no_console(tmp_path: Path, file: Path) -> None:
    line = f"user create app --data-dir {tmp_path} --password-file {file}"
    assert NOBODY.out(line) == "app created, for Kafka\n"
    with running_broker(tmp_path) as broker:
        assert broker.setup_secret, "nobody may log in to the console yet"


def test_users_are_listed_changed_and_deleted(tmp_path: Path, file: Path) -> None:
    at = f"--data-dir {tmp_path}"
    NOBODY.out(f"user create ada {at} --password-file {file} --role admin")
    NOBODY.out(f"user create app {at} --password-file -", text=f"{PASSWORD}\n")
    rows = NOBODY.json(f"user list {at}")["users"]
    both = ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert [(each["name"], each["role"], each["kafka"]) for each in rows] == [
        ("ada", "admin", both), ("app", "none", both)]
    assert NOBODY.out(f"user role app viewer {at}") == "app is now viewer\n"
    file.write_text("another password")
    assert NOBODY.out(f"user password app {at} --password-file {file}") == (
        "app has a new password\n")
    with running_broker(tmp_path) as broker:
        assert logged_in(broker, "app", "another password").get("/session")["role"] == "viewer"
    assert NOBODY.out(f"user delete ada --yes {at}") == "ada deleted\n"
    assert [each["name"] for each in NOBODY.json(f"user list {at}")["users"]] == ["app"]
    catalog = Catalog.open(tmp_path / NAME)  # certificates and tokens of hers are void
    table = UserTable(UserRows(catalog), Facts(Changes()))
    assert table.is_withdrawn("ada", 1_700_000_000_000)
    assert not table.is_withdrawn("app", 1_700_000_000_000)
    catalog.close()


@pytest.mark.parametrize(
    ("line", "text", "code", "words"),
    [
        ("create ada", "", 1, "got an empty first line, wanted a password"),
        ("create ada", "short\n", 1, "password: got 5 characters, wanted 10"),
        ("create a/da", f"{PASSWORD}\n", 1, "name: got 'a/da'"),
        ("create app", f"{PASSWORD}\n", 1, "there is a user app already"),
        ("password eve", f"{PASSWORD}\n", 3, "there is no user 'eve'; there are: app"),
    ],
)
def test_what_cannot_be_is_refused(
    tmp_path: Path, file: Path, line: str, text: str, code: int, words: str
) -> None:
    NOBODY.out(f"user create app --data-dir {tmp_path} --password-file {file}")
    result = NOBODY.run(f"user {line} --data-dir {tmp_path} --password-file -", text=text)
    assert (result.exit_code, words in result.stderr) == (code, True), result.stderr


def test_admin_before_an_address_is_the_admin_port(tmp_path: Path, file: Path) -> None:
    result = NOBODY.run(f"user create ada --password-file {file} --admin 127.0.0.1:2")
    assert (result.exit_code, "127.0.0.1:2 cannot be reached" in result.stderr) == (5, True)


def test_a_password_is_no_part_of_a_command_line_without_a_warning(tmp_path: Path) -> None:
    result = NOBODY.run(f"user create app --data-dir {tmp_path} --password", PASSWORD)
    assert (result.exit_code, "list of processes" in result.stderr) == (0, True)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    result = NOBODY.run(f"user create app --data-dir {tmp_path} --password-file /none/x")
    assert (result.exit_code, "/none/x" in result.stderr) == (1, True)
    assert os.listdir(tmp_path) in ([], [NAME])
