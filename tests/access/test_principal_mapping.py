"""Names of clients from their certificates, as Kafka makes them."""

from __future__ import annotations

import ssl
import time
from pathlib import Path

import pytest

from appliance.access.distinguished_name import elements, text_of
from appliance.access.principal_mapping import PrincipalMapping, RulesInvalid
from appliance.protocol import MalformedMessage
from tests.support.certificates import Authority


@pytest.mark.parametrize(
    ("rules", "subject", "name"),
    [
        ("", "CN=ann,OU=sales", "CN=ann,OU=sales"),
        ("DEFAULT", "CN=ann,OU=sales", "CN=ann,OU=sales"),
        (r"RULE:^CN=(.*?),OU=sales.*$/$1/", "CN=Ann,OU=sales,C=DE", "Ann"),
        (r"RULE:^CN=(.*?),OU=sales.*$/$1/L", "CN=Ann,OU=sales,C=DE", "ann"),
        (r"RULE:^CN=(.*?),OU=sales.*$/$1/U", "CN=Ann,OU=sales,C=DE", "ANN"),
        (r"RULE:^CN=(\w+),OU=(\w+)$/$1@$2/", "CN=ann,OU=sales", "ann@sales"),
        (r"RULE:^CN=a$/x/,RULE:^CN=b$/y/", "CN=b", "y"),
        (r"RULE:^CN=a$/x/, RULE:^.*$/all/ , DEFAULT", "CN=b", "all"),
        (r"RULE:^CN=a$/x/,DEFAULT", "CN=b", "CN=b"),
        (r"RULE:^CN=a$/x/", "CN=b", None),
        (r"RULE:CN=a/x/", "CN=ab", None),  # the whole subject has to fit
        (r"RULE:^CN=(a\/b),(.*)$/$1/", "CN=a/b,C=DE", "a/b"),
        (r"RULE:^CN=(.*)$/cost \$1/", "CN=a", "cost $1"),
        (r"RULE:^(CN=\w+)(,OU=\w+)?$/$1-$2/", "CN=a", "CN=a-"),
        (r"RULE:^CN=(a\\,b).*$/$1/", "CN=a\\,b,C=DE", "a\\,b"),
        (r"RULE:^CN=(.*)$/$1/L", "CN=ÄRGER", "ärger"),
    ],
)
def test_the_first_rule_that_fits_counts(rules: str, subject: str, name: str | None) -> None:
    assert PrincipalMapping(rules).name_of(subject) == name


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ("RULE:^CN=a$", "wanted DEFAULT or RULE:pattern"),
        ("RULE:^CN=a$/x", "wanted DEFAULT or RULE:pattern"),
        ("RULE:^CN=a$/x/Z", "behind a rule, wanted a comma"),
        ("default", "wanted DEFAULT or RULE:pattern"),
        ("DEFAULT,", "got '', wanted DEFAULT"),
        ("RULE:^CN=(a$/x/", "missing"),
        (r"RULE:^(a)\1$/x/", "invalid"),
        ("RULE:^CN=(.*)$/$2/", "$2 in the replacement, and 1 groups"),
        (",".join(["DEFAULT"] * 101), "101 rules, wanted at most 100"),
    ],
)
def test_wrong_rules_are_refused(rules: str, why: str) -> None:
    with pytest.raises(RulesInvalid) as error:
        PrincipalMapping(rules)
    assert why in str(error.value)


def test_a_hostile_pattern_takes_no_time() -> None:
    mapping, begin = PrincipalMapping("RULE:^CN=(a+)+$/x/"), time.monotonic()
    assert mapping.name_of("CN=" + "a" * 30_000 + "!") is None
    assert time.monotonic() - begin < 5


def name(*parts: list[tuple[str, int, bytes]]) -> bytes:
    """In DER; the numbers of attributes are given in hexadecimal."""
    sets = b""
    for part in parts:
        pairs = [der(0x30, der(6, bytes.fromhex(of)) + der(tag, value)) for of, tag, value in part]
        sets += der(0x31, b"".join(pairs))
    return der(0x30, sets)


def der(tag: int, content: bytes) -> bytes:
    size = len(content)
    return bytes([tag, size] if size < 128 else [tag, 0x82, size >> 8, size & 255]) + content


CN, OU, EMAIL = "550403", "55040b", "2a864886f70d010901"


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        (name([(OU, 12, b"sales")], [(CN, 12, b"ann")]), "CN=ann,OU=sales"),
        (name([(CN, 12, b"ann"), (OU, 19, b"sales")]), "CN=ann+OU=sales"),
        (name([(CN, 12, b'a,b+c"d\\e<f>g;h=i#j')]),
         r'CN=a\,b\+c\"d\\e\<f\>g\;h\=i\#j'),
        (name([(CN, 12, b" ann ")]), "CN=\\ ann\\ "),
        (name([(CN, 12, b"  ")]), "CN=\\ \\ "),
        (name([(CN, 12, "Ärger\n".encode())]), "CN=Ärger\n"),
        (name([(CN, 12, b"a\0b")]), "CN=a\\00b"),
        (name([(EMAIL, 22, b"a@b")]), "1.2.840.113549.1.9.1=#1603614062"),
        (name([(CN, 3, b"\0\1")]), "CN=#03020001"),
        (name(), ""),
        (name([(CN, 12, b"x" * 300)]), "CN=" + "x" * 300),
    ],
)
def test_subjects_are_written_as_java_writes_them(subject: bytes, text: str) -> None:
    assert text_of(subject) == text


def test_a_subject_that_is_cut_is_refused() -> None:
    whole = name([(OU, 12, b"sales")], [(CN, 12, b"ann")])
    for size in range(1, len(whole)):
        with pytest.raises(MalformedMessage):
            text_of(whole[:size])
    for bad in (b"", name([(CN, 12, b"\xff")]), der(0x31, b""), der(0x30, der(0x30, b""))):
        with pytest.raises(MalformedMessage):
            text_of(bad)


def test_subjects_of_openssl_are_read(tmp_path: Path) -> None:
    subject = "/C=DE/O=Box, Inc./OU=a+OU=b/CN=ann"
    made = Authority(tmp_path).issue("ann", subject=subject)
    whole = ssl.PEM_cert_to_DER_cert(made.certificate.read_text())
    (certificate,) = elements(whole)
    fields = elements(elements(certificate.content)[0].content)
    assert text_of(fields[5].whole) == "CN=ann,OU=a+OU=b,O=Box\\, Inc.,C=DE"
