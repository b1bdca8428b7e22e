"""Regular expressions that somebody else wrote: clients, people at the console, stored definitions.

They are RE2's. It takes time in proportion to the text, whatever the pattern is, where Python's
`re` tries every way there is: `(a+)+$` and forty letters keep it busy for days, with the whole
process standing still. What RE2 cannot do in such time, backreferences and looking
around, it refuses.
"""

from __future__ import annotations

import re2

from appliance.errors import ApplianceError

# Of a compiled pattern. A list of thousands of names fits.
MEMORY_BYTES = 1 << 20
SHOWN_MAX = 200  # characters of a wrong pattern that an error repeats


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
