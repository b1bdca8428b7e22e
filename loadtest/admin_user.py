"""A user of the console, and scripts that use the REST API, over HTTP by locust's own client."""

from __future__ import annotations

import itertools
import os
from typing import Any

from locust import FastHttpUser, between, task

from loadtest.broker_metrics import url_of

API = "/api/v1"
numbers = itertools.count()


class AdminUser(FastHttpUser):
    weight = 5
    wait_time = between(0.5, 1.5)

    def __init__(self, environment: Any) -> None:
        options = environment.parsed_options
        self.host = url_of(options.admin)  # not --host, which speaks Kafka's protocol
        # locust's own client believes everybody, unless it is told otherwise
        self.insecure = False
        super().__init__(environment)
        self.topic = options.topic
        self.headers = {"Authorization": f"Bearer {options.token}"} if options.token else {}

    def get(self, path: str, name: str = "") -> None:
        self.client.get(path, name=name or path, headers=self.headers)

    @task(4)
    def look(self) -> None:
        self.get("/")
        self.get(f"{API}/health")
        self.get(f"{API}/topics")

    @task(3)
    def look_closer(self) -> None:
        self.get(f"{API}/topics/{self.topic}", f"{API}/topics/[topic]")
        self.get(f"{API}/groups")

    @task(2)
    def browse(self) -> None:
        path = f"{API}/topics/{self.topic}/messages"
        self.get(f"{path}?limit=20", f"{API}/topics/[topic]/messages")

    @task(2)
    def scrape(self) -> None:
        self.get("/metrics")

    @task(1)
    def make_and_delete(self) -> None:
        topic = f"{self.topic}-admin-{os.getpid()}-{next(numbers)}"
        asked = {"name": topic, "partitions": 1}
        self.client.post(f"{API}/topics", json=asked, headers=self.headers)
        path, name = f"{API}/topics/{topic}", f"{API}/topics/[topic]"
        self.client.delete(path, name=name, json={"confirm": topic}, headers=self.headers)
