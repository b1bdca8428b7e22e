"""An empty or foreign folder as the target of a command line or a file: nothing is exported into it
before the user confirms a new target. (test_export_failures covers exports that the broker knows.)
The topics have no records, so that no run needs Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from appliance.cli.main import main
from appliance.testing import RunningBroker
from appliance_spark import export_manifest, export_run
from appliance_spark.export_layout import Target
from tests.support.rest import Rest


class Place:
    def __init__(self, broker: RunningBroker, root: Path) -> None:
        self.broker, self.target = broker, Target(root / "lake")
        self.file = root / "exports.toml"
        self.file.write_text(f'[[export]]\nname = "filed"\ntopics = ["bare"]\n'
                             f'target = "{self.target.root}"\n')

    def export(self, words: str, *more: str) -> tuple[int, str]:
        done = CliRunner().invoke(main, ["export", *words.split(), *more])
        return done.exit_code, done.stdout + done.stderr

    def run(self, topic: str = "bare", words: str = "") -> tuple[int, str]:
        return self.export(f"run {topic} {words}", "--target", str(self.target.root),
                           "--admin", self.broker.admin)

    def run_filed(self, words: str = "") -> tuple[int, str]:
        return self.export(f"run --name filed {words}", "--file", str(self.file),
                           "--admin", self.broker.admin)

    def unmount(self) -> None:
        self.target.root.rename(self.target.root.with_name("elsewhere"))
        self.target.root.mkdir()

    def is_empty(self) -> bool:
        return list(self.target.root.iterdir()) == []


@pytest.fixture
def place(appliance_broker: RunningBroker, tmp_path: Path) -> Place:
    for name in ("bare", "other"):
        Rest(appliance_broker.admin).post("/topics", {"name": name})
    return Place(appliance_broker, tmp_path)


def wants_a_word(told: tuple[int, str]) -> bool:
    code, text = told
    return code == 1 and "is its file system mounted? If it is to begin here" in text


def test_a_target_is_not_mounted(place: Place) -> None:
    assert place.run(words="--new-target")[0] == 0
    assert place.run()[0] == 0
    place.unmount()
    told = place.run()
    assert wants_a_word(told), told
    assert "lake has no export, wanted one of bare" in told[1]
    assert place.is_empty()
    place.target.root.rmdir()
    place.target.root.with_name("elsewhere").rename(place.target.root)
    assert place.run()[0] == 0
    assert len(export_manifest.load(place.target)["runs"]) == 3


def test_a_new_target_is_confirmed_once(place: Place) -> None:
    assert wants_a_word(place.run())
    assert not place.target.root.exists()
    assert place.run(words="--new-target")[0] == 0
    code, text = place.run(words="--new-target")  # as in a crontab
    assert (code, "has exported bare already: run it without --new-target" in text) == (1, True)


@pytest.mark.parametrize("words", ["run bare --new-target", "backfill bare", "run --name filed"])
def test_without_a_broker_no_target_is_made(place: Place, words: str) -> None:
    given = ("--file", str(place.file), "--new-target") if "filed" in words else (
        "--target", str(place.target.root))
    code, text = place.export(words, *given, "--admin", "127.0.0.1:1")
    assert (code, "http://127.0.0.1:1 cannot be reached" in text) == (5, True), text
    assert not place.target.root.exists()


@pytest.mark.parametrize("words", ["run bear --new-target", "backfill bear"])
def test_for_a_topic_that_is_none_no_target_is_made(place: Place, words: str) -> None:
    code, text = place.export(words, "--target", str(place.target.root),
                              "--admin", place.broker.admin)
    assert (code, "bear" in text) == (3, True), text
    assert not place.target.root.exists()


def test_another_export_is_mounted_there(place: Place) -> None:
    assert place.run("other", "--new-target")[0] == 0
    told = place.run()
    assert wants_a_word(told), told
    assert "lake has exports of other, wanted one of bare" in told[1]
    assert place.run("bare other")[0] == 0  # with another topic


def test_a_stopped_first_run_continues(place: Place) -> None:
    export_run.opened(place.target)
    assert place.run()[0] == 0


def test_a_lost_manifest_is_reported_as_such(place: Place) -> None:
    folder = place.target.root / "topic=bare/date=2026-11-21/hour=08"
    folder.mkdir(parents=True)
    (folder / "a.parquet").write_text("")
    for code, text in (place.run(), place.run(words="--new-target")):
        assert (code, "has files such as topic=bare/" in text) == (1, True), text


def test_an_export_of_a_file_runs_and_its_target_is_known_again(place: Place) -> None:
    """The broker does not know this export."""
    assert wants_a_word(place.run_filed())
    for words in ("--new-target", ""):
        code, text = place.run_filed(words)
        assert (code, "did not take" in text) == (0, False), text
    place.unmount()
    assert wants_a_word(place.run_filed())
    assert place.is_empty()


def test_a_backfill_is_new_by_itself(place: Place) -> None:
    words = ("--target", str(place.target.root), "--admin", place.broker.admin)
    assert place.export("backfill bare", *words)[0] == 0
    code, text = place.export("backfill bare", *words)
    assert (code, "a backfill needs a new target" in text) == (1, True)


@pytest.mark.parametrize("words", ["compact", "table", "verify --offline", "list",
                                   "backfill --lost-files", "schema bare --infer-again"])
def test_no_command_makes_a_target_of_an_empty_folder(place: Place, words: str) -> None:
    """The next run would take the folder for a target whose first run was stopped."""
    place.target.root.mkdir()
    code, text = place.export(words, "--target", str(place.target.root))
    assert (code, "has no export: there is no" in text) == (1, True), text
    assert place.is_empty()


@pytest.mark.parametrize("words", ["run --name daily --new-target", "run t --accept-target",
                                   "run --name filed --file {file} --accept-target"])
def test_each_way_has_its_own_word(place: Place, words: str) -> None:
    code, text = place.export(words.format(file=place.file), "--target", "/x")
    assert (code, "--new-target" in text, "--accept-target" in text) == (2, True, True)
