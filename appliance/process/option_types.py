"""Types of options on a command line that click lacks."""

from __future__ import annotations

import math
from typing import Any

import click

from appliance.config.config_key import ConfigInvalid
from appliance.config.config_words import plain


class FiniteRange(click.FloatRange):
    """A number between two limits. Click's own type lets `nan` pass, which is in no order."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value} is not in the range {self._describe_range()}.", param, ctx)
        return number


class Size(click.IntRange):
    """Bytes, also in words: 134217728, 128MiB."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            number: Any = plain("bytes", str(value))
        except ConfigInvalid as error:
            self.fail(str(error), param, ctx)
        return super().convert(number, param, ctx)
