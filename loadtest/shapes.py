"""The load over time, by `--shape`: up to `--users`, until `--run-time` is over."""

from __future__ import annotations

from typing import Any

from locust import LoadTestShape

from loadtest.shape_curves import SHAPES

RUN_S = 600.0  # without --run-time
SPAWN_RATE = 100.0  # users a second; above it locust warns


class Shape(LoadTestShape):
    abstract = True  # locust would always use it; `--shape` selects it
    use_common_options = True

    def __init__(self, name: str, period_s: float) -> None:
        super().__init__()
        self._part, self._period_s = SHAPES[name], period_s

    def tick(self) -> tuple[int, float] | None:
        assert self.runner is not None
        options: Any = self.runner.environment.parsed_options
        second, run_s = self.get_run_time(), float(options.run_time or RUN_S)
        if second >= run_s:
            return None
        users = options.num_users or 1
        return max(1, round(users * self._part(second, run_s, self._period_s))), SPAWN_RATE
