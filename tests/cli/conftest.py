"""A shell for a broker of the test's own."""

from __future__ import annotations

import pytest

from appliance.testing import RunningBroker
from tests.support.shell import Shell


@pytest.fixture
def shell(appliance_broker: RunningBroker) -> Shell:
    return Shell(appliance_broker.admin)
