"""The `appliance` command, also as `python -m appliance`."""

import sys

from appliance.process.stop_signals import stop_signals


def main() -> None:
    if sys.argv[1:2] == ["serve"]:
        stop_signals.hold()  # before a second of imports
    from appliance.cli.main import main as command

    command()


if __name__ == "__main__":
    main()
