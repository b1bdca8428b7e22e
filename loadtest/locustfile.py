"""What locust loads.

locust -f loadtest/locustfile.py --host 127.0.0.1:9092
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import gevent

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # locust adds this folder only

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

# Seconds without a word from a worker until it is given up. Locust waits for three: a machine that
# is loaded on purpose may well keep a worker silent for longer.
runners.HEARTBEAT_LIVENESS = 30

STOP_TIMEOUT_S = 2.0  # for answers under way; else the outcome of what was sent last is unknown

events.init_command_line_parser.add_listener(options.add_to)


@events.init.add_listener
def on_init(environment: Any, runner: Any, web_ui: Any, **_: Any) -> None:
    given = environment.parsed_options
    # the loop's clock stands since locust began to load; --run-time would begin there
    gevent.get_hub().loop.update_now()
    environment.stop_timeout = environment.stop_timeout or STOP_TIMEOUT_S
    if not given.admin:  # nowhere to go for them
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
