"""The file for locust: its users, options and shapes.

locust -f loadtest/locustfile.py --host 127.0.0.1:9092
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import gevent

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # locust adds only this folder

from locust import events, runners

from loadtest import options, tab
from loadtest.admin_user import AdminUser
from loadtest.consumer_user import ConsumerUser
from loadtest.end_to_end_user import EndToEndUser
from loadtest.group_member_user import GroupMemberUser
from loadtest.producer_user import ProducerUser
from loadtest.run import Run
from loadtest.shapes import Shape

__all__ = ["AdminUser", "ConsumerUser", "EndToEndUser", "GroupMemberUser", "ProducerUser"]

# Seconds of silence until a worker is given up. Locust's default is three: a loaded machine may
# well keep a worker silent for longer.
runners.HEARTBEAT_LIVENESS = 30

STOP_TIMEOUT_S = 2.0  # for open requests; otherwise the outcome of the last batches is unknown

events.init_command_line_parser.add_listener(options.add_to)


@events.init.add_listener
def on_init(environment: Any, runner: Any, web_ui: Any, **_: Any) -> None:
    given = environment.parsed_options
    options.check(given)
    # the loop's clock has not advanced since locust loaded this; --run-time would start there
    gevent.get_hub().loop.update_now()
    environment.stop_timeout = environment.stop_timeout or STOP_TIMEOUT_S
    if not given.admin:  # no address to use
        users = [each for each in environment.user_classes if each is not AdminUser]
        if not users:
            raise SystemExit("AdminUser: wanted --admin host:port of the broker's console")
        environment.user_classes[:] = users
    if given.shape:
        environment.shape_class = Shape(given.shape, given.shape_period)
        environment.shape_class.runner = runner
    environment.loadtest = Run(environment)
    if web_ui:
        tab.add_to(web_ui, environment.loadtest)
