"""The limits of schemas and of what is decoded by them, and how both fail."""

from __future__ import annotations

from appliance.errors import ApplianceError

SCHEMA_BYTES_MAX = 1 << 20
NAMES_TEXT_MAX = 32 << 20  # characters that names of a schema may take in the text of one record


class SchemaInvalid(ApplianceError):
    kafka_code = 42


class DecodeFailed(ApplianceError):
    """The data does not match the schema."""


def check_names_fit(values: int, longest: int) -> None:
    """A byte may stand for a name of any length, which the schema has once."""
    if values * longest > NAMES_TEXT_MAX:
        raise DecodeFailed(
            f"{values} values, with names of up to {longest} characters in the schema: the text "
            "could be too long"
        )
