"""`appliance login`, and what other commands make of it: over TLS, in a file of the user's own."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from appliance.cli.main import main
from appliance.process.tls_client import explained
from appliance.testing import RunningBroker, running_broker
from tests.support.certificates import Authority
from tests.support.people import PASSWORD, make_people


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def broker(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority
) -> Iterator[RunningBroker]:
    path = tmp_path_factory.mktemp("appliance")
    make_people(path)
    with running_broker(path, authority.settings) as running:
        yield running


class Home:
    """A person's own directory, and a shell in it."""

    def __init__(self, folder: Path, broker: RunningBroker, authority: Authority) -> None:
        self.folder, self.url, self.ca = folder, f"https://{broker.admin}", authority.trust
        self.file = folder / "appliance" / "logins.json"
        self.password = folder / "password"
        self.password.write_text(PASSWORD + "\n")

    def run(self, *words: str, text: str = "", **environment: str) -> Result:
        told: dict[str, str | None] = {
            "XDG_CONFIG_HOME": str(self.folder), "APPLIANCE_TOKEN": None,
            "APPLIANCE_ADMIN_ADDRESS": None, **environment,
        }  # fmt: skip
        return CliRunner().invoke(main, list(words), input=text, env=told)

    def log_in(self, name: str = "ada", *more: str) -> Result:
        return self.run(
            "login", self.url, "--user", name, "--ca-file", str(self.ca),
            "--password-file", str(self.password), *more,
        )  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, broker: RunningBroker, authority: Authority) -> Home:
    return Home(tmp_path, broker, authority)


def test_a_login_serves_all_commands_until_the_logout(home: Home) -> None:
    done = home.log_in()
    assert (done.exit_code, home.url in done.stdout) == (0, True), done.output
    assert stat.S_IMODE(home.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.file.parent.stat().st_mode) == 0o700
    assert PASSWORD not in home.file.read_text()
    listed = home.run("user", "list")
    assert (listed.exit_code, "vera" in listed.stdout) == (0, True), listed.output
    live = home.run("top", "--once")
    assert (live.exit_code, "connection" in live.stdout) == (0, True), live.output
    named = home.run("user", "list", "--admin", home.url)
    assert named.exit_code == 0, named.output
    secret = json.loads(home.file.read_text())["logins"][0]["secret"]
    assert home.run("logout").exit_code == 0
    assert secret not in home.file.read_text()
    late = home.run(
        "user", "list", "--admin", home.url, APPLIANCE_TOKEN=secret, APPLIANCE_CA_FILE=str(home.ca)
    )
    assert (late.exit_code, "appliance login" in late.stderr) == (4, True), "the session is over"
    assert home.run("logout").exit_code == 3


def test_the_password_is_asked_for(home: Home) -> None:
    done = home.run(
        "login", home.url, "--ca-file", str(home.ca), "--json", text=f"vera\n{PASSWORD}\n"
    )
    assert done.exit_code == 0, done.output
    assert PASSWORD not in done.stdout
    assert home.run("topic", "list").exit_code == 0
    assert home.run("user", "list").exit_code == 4, "vera is a viewer"


def test_a_wrong_password_keeps_nothing(home: Home) -> None:
    home.password.write_text("no password of anybody\n")
    done = home.log_in()
    assert (done.exit_code, "login_wrong" in done.stderr) == (4, True), done.output
    assert not home.file.exists()


def test_a_file_that_others_may_read_is_refused(home: Home) -> None:
    assert home.log_in().exit_code == 0
    home.file.chmod(0o644)
    done = home.run("topic", "list")
    assert (done.exit_code, "chmod 600" in done.stderr) == (1, True)


def test_a_token_comes_from_a_file(home: Home) -> None:
    assert home.log_in().exit_code == 0
    made = home.run("user", "token", "cron", "--role", "viewer")
    assert home.run("logout").exit_code == 0
    (home.folder / "token").write_text(made.stdout)
    asked = ["topic", "list", "--admin", home.url, "--ca-file", str(home.ca)]
    assert home.run(*asked).exit_code == 4
    assert home.run(*asked, "--token-file", str(home.folder / "token")).exit_code == 0
    shown = home.run(*asked, "--token", made.stdout.strip())
    assert (shown.exit_code, "everybody on this machine" in shown.stderr) == (0, True)


def test_what_is_wrong_with_tls_is_told(
    home: Home, authority: Authority, tmp_path: Path
) -> None:
    told = home.run("topic", "list", "--admin", home.url)
    assert (told.exit_code, "--ca-file" in told.stderr) == (5, True), told.output
    plain = home.run("topic", "list", "--admin", home.url.replace("https", "http"))
    assert (plain.exit_code, "wanted https://" in plain.stderr) == (1, True), plain.output
    missing = home.run("topic", "list", "--admin", home.url, "--ca-file", str(tmp_path / "none"))
    assert (missing.exit_code, "No such file" in missing.stderr) == (1, True), missing.output


@pytest.mark.parametrize(
    ("names", "days", "words"),
    [(("elsewhere.example",), 30, "for other names"), ((), -2, "has expired")],
)
def test_another_name_and_an_old_certificate_are_told(
    names: tuple[str, ...], days: int, words: str, home: Home, tmp_path: Path
) -> None:
    own = Authority(tmp_path / "tls")
    settings = {"ssl.keystore.location": str(own.keystore(*names, days=days)), "admin.tls": "on"}
    with running_broker(tmp_path / "data", settings) as broker:
        url = f"https://{broker.admin}"
        told = home.run("topic", "list", "--admin", url, "--ca-file", str(own.trust))
    assert (told.exit_code, words in told.stderr) == (5, True), told.output


def test_a_port_without_tls_is_told(home: Home, tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as broker:
        told = home.run("topic", "list", "--admin", f"https://{broker.admin}")
    assert (told.exit_code, "wanted http://" in told.stderr) == (5, True), told.output


def test_what_is_no_fault_of_tls_is_not_explained() -> None:
    assert explained(ConnectionRefusedError()) == ""
