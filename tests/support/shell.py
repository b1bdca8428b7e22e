"""A shell that asks a running broker, as a person types."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner, Result

from appliance.cli.main import main


class Shell:
    def __init__(self, admin: str, token: str = "") -> None:
        self.admin, self.token = admin, token

    def run(self, line: str, *more: str, text: str = "") -> Result:
        environment = {"APPLIANCE_ADMIN_ADDRESS": self.admin}
        if self.token:
            environment["APPLIANCE_TOKEN"] = self.token
        return CliRunner().invoke(main, [*line.split(), *more], input=text, env=environment)

    def out(self, line: str, *more: str, text: str = "") -> str:
        result = self.run(line, *more, text=text)
        assert result.exit_code == 0, result.output
        return str(result.stdout)

    def json(self, line: str, *more: str, text: str = "") -> Any:
        return json.loads(self.out(f"{line} --json", *more, text=text))
