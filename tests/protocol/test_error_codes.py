"""The compiled core and Python tell a client the same of the same fact."""

from appliance.errors import _BY_CODE
from appliance.protocol._error_codes import kafka_code


def test_both_sides_have_the_same_codes() -> None:
    assert {code: kafka_code(code) for code in _BY_CODE} == {
        code: error.kafka_code for code, error in _BY_CODE.items()
    }
    assert kafka_code(0) == 0
    assert kafka_code(-999) == -1
