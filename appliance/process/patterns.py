"""Regular expressions of others: clients, users of the console, stored definitions.

They use RE2, which takes time in proportion to the text for any pattern. Python's `re` may try
exponentially many ways: `(a+)+$` and forty letters keep it busy for days and block the whole
process. RE2 refuses what it cannot match in linear time: backreferences, lookahead and lookbehind.
"""

from __future__ import annotations

import re2

from appliance.errors import ApplianceError

# Memory of a compiled pattern. A list of thousands of names fits.
MEMORY_BYTES = 1 << 20
SHOWN_MAX = 200  # characters of a wrong pattern in an error


class PatternInvalid(ApplianceError):
    kafka_code = 128


def compiled(text: str) -> re2._Regexp:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MEMORY_BYTES
    try:
        return re2.compile(text, options)
    except (re2.error, UnicodeEncodeError) as error:
        why = error.args[0] if isinstance(error, re2.error) and error.args else error
        told = why.decode("utf-8", "replace") if isinstance(why, bytes) else str(why)
        raise PatternInvalid(
            f"{text[:SHOWN_MAX]!r} is not a valid regular expression of RE2: {told[:SHOWN_MAX]}"
        ) from error
