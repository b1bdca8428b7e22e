"""The subject of a certificate as text, as Kafka has it: `CN=ann,OU=sales,O=Box`.

Kafka takes what Java writes by RFC 2253: the last part first, attributes that have a short name in
it by that name, and all others by their number with the value in hexadecimal. Rules and lists of
users are written for that text, so it has to be the same to the last backslash.

A name comes in DER, from a client whose certificate somebody vouches for. It is read within its
bytes: what does not fit is refused.
"""

from __future__ import annotations

from typing import NamedTuple

from appliance.protocol import MalformedMessage

SEQUENCE, SET, OID = 0x30, 0x31, 0x06

# Values that Java writes as text: UTF8String, PrintableString, TeletexString, IA5String,
# GeneralString and BMPString, whose bytes it takes for UTF-8, whatever they are.
TEXTS = (0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E)

SHORT_NAMES = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}

ESCAPED = frozenset(',=+<>#;"\\')


class Element(NamedTuple):
    tag: int
    content: bytes
    whole: bytes


def text_of(name: bytes) -> str:
    """MalformedMessage: it is no name."""
    (outer,) = elements(name) or (None,)
    if outer is None or outer.tag != SEQUENCE:
        raise MalformedMessage("the subject of a certificate is no sequence")
    parts = [part_of(each) for each in elements(outer.content)]
    return ",".join(reversed(parts))


def part_of(part: Element) -> str:
    """Several attributes may be one part."""
    if part.tag != SET:
        raise MalformedMessage("a part of a certificate's subject is no set")
    return "+".join(attribute_of(each) for each in elements(part.content))


def attribute_of(attribute: Element) -> str:
    pair = elements(attribute.content)
    if len(pair) != 2 or pair[0].tag != OID:
        raise MalformedMessage("an attribute of a certificate's subject is no type and value")
    number, value = number_of(pair[0].content), pair[1]
    short = SHORT_NAMES.get(number)
    if short is None or value.tag not in TEXTS:
        return f"{short or number}=#{value.whole.hex()}"
    try:
        return f"{short}={escaped(value.content.decode())}"
    except UnicodeDecodeError as error:
        raise MalformedMessage(f"{short} of a certificate's subject is no UTF-8") from error


def escaped(text: str) -> str:
    signs = ["\\00" if it == "\0" else f"\\{it}" if it in ESCAPED else it for it in text]
    blank = [each in " \r" for each in signs]
    before = blank.index(False) if False in blank else len(signs)
    after = len(signs) - (blank[::-1].index(False) if False in blank else 0)
    return "".join(
        f"\\{each}" if not before <= at < after else each for at, each in enumerate(signs)
    )


def number_of(content: bytes) -> str:
    """1.2.840.113549: the first byte is two numbers, the others have seven bits a byte."""
    if not content or content[-1] & 0x80:
        raise MalformedMessage("a type in a certificate's subject is no number")
    numbers, number = [], 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))


def elements(data: bytes) -> list[Element]:
    """All that are in it, one after the other."""
    found, at = [], 0
    while at < len(data):
        begin = at
        if at + 2 > len(data):
            raise MalformedMessage("the subject of a certificate ends too early")
        tag, size = data[at], data[at + 1]
        at += 2
        if size & 0x80:
            count = size & 0x7F
            size = int.from_bytes(data[at : at + count], "big")
            at += count
        if at + size > len(data):
            raise MalformedMessage("the subject of a certificate ends too early")
        found.append(Element(tag, data[at : at + size], data[begin : at + size]))
        at += size
    return found
