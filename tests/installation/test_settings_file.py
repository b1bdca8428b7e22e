from __future__ import annotations

import re
from pathlib import Path

from appliance import config
from appliance.installation import settings_file


def test_a_new_file_has_every_setting_with_its_default(tmp_path: Path) -> None:
    file = tmp_path / "appliance.toml"
    text = settings_file.written({})
    file.write_text(text)
    assert config.values_of(config.load(file)) == config.values_of(config.load())
    file.write_text(re.sub(r'^#"', '"', text, flags=re.MULTILINE))
    loaded = config.load(file)
    assert config.values_of(loaded) == config.values_of(config.load())
    assert loaded.origins.keys() == config.settings().keys()


def test_what_is_given_is_in_force() -> None:
    text = settings_file.written({"data.dir": Path("/srv/a b"), "data.marker": "m"})
    assert '\n"data.dir" = "/srv/a b"\n' in text
    assert '\n"data.marker" = "m"\n' in text
    assert "One broker at a time" in text.partition("\n\"data.dir\"")[0]  # its reason, above it


def test_a_persons_lines_stay(tmp_path: Path) -> None:
    theirs = '# mine\nnode.id = 7\ndata.dir = "/old"  # here\n[log]\nroll.ms = 5\n'
    text = settings_file.with_values(theirs, {"data.dir": Path("/new"), "data.marker": "m"})
    assert text == (
        '"data.marker" = "m"\n# mine\nnode.id = 7\n"data.dir" = "/new"\n[log]\nroll.ms = 5\n'
    )
    file = tmp_path / "appliance.toml"
    file.write_text(text)
    assert config.values_of(config.load(file))["log.roll.ms"] == 5
    assert settings_file.values_in(file)["data.dir"] == Path("/new")


def test_words_of_a_reason_are_no_setting() -> None:
    theirs = "# node.id = 5 was here\n#node.id = 1\n"
    assert settings_file.with_values(theirs, {"node.id": 2}) == (
        '# node.id = 5 was here\n"node.id" = 2\n'
    )
