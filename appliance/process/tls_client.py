"""TLS as our clients of HTTP speak it: whom they trust, and what a failure means.

They trust the system's authorities, or those of a file and nobody else. There is no way to trust
everybody. Standard library alone: workers of Spark have nothing else.
"""

from __future__ import annotations

import http.client
import ssl
from functools import cache
from pathlib import Path

CA_FILE_BYTES_MAX = 4 << 20  # all authorities of a system are half a megabyte

# X509_V_ERR_... of OpenSSL
NOT_YET, EXPIRED = 9, 10
UNKNOWN = (2, 18, 19, 20, 21)
OTHER_NAME = (62, 64)

TRUST = "give the file of its authority with --ca-file or APPLIANCE_CA_FILE (Spark: caFile)"


class CaFileInvalid(OSError):
    """The text has the file and what is wanted."""


def ca_in(path: Path | str) -> str:
    """The authorities in a file, as PEM."""
    try:
        with Path(path).open(encoding="ascii") as file:
            text = file.read(CA_FILE_BYTES_MAX)
    except OSError as error:
        raise CaFileInvalid(f"authorities: {path}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise CaFileInvalid(f"authorities: {path}: wanted certificates in PEM") from None
    trusting(text, str(path))
    return text


@cache  # reading the system's authorities takes 20 ms
def trusting(ca: str = "", named: str = "") -> ssl.SSLContext:
    """`ca` is PEM; "": the system's."""
    try:
        context = ssl.create_default_context(cadata=ca or None)
    except ssl.SSLError as error:
        raise CaFileInvalid(
            f"authorities: {named or 'as given'}: {error.reason or error}; wanted certificates in "
            "PEM"
        ) from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def explained(error: BaseException | object) -> str:
    """What to do about a failure; "": it is not one of TLS."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _of_certificate(error)
    if isinstance(error, ssl.SSLError):
        if error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"):
            return "no TLS is spoken there: wanted http:// in front of the address"
        return f"TLS could not be agreed upon ({error.reason or error})"
    if isinstance(error, http.client.BadStatusLine) and str(error).startswith("'\\x15\\x03"):
        return "TLS is spoken there: wanted https:// in front of the address"
    return ""


def _of_certificate(error: ssl.SSLCertVerificationError) -> str:
    code, text = error.verify_code, error.verify_message
    if code in UNKNOWN:
        return f"its certificate is by an authority that is not trusted here ({text}): {TRUST}"
    if code in OTHER_NAME:
        return (
            f"its certificate is for other names ({text}): wanted a name or address that is in it, "
            "or a certificate that has this one (appliance tls self-signed)"
        )
    if code == EXPIRED:
        return f"its certificate has expired, or the clock of this machine is wrong ({text})"
    if code == NOT_YET:
        return f"its certificate is not valid yet, or this machine's clock is wrong ({text})"
    return f"its certificate is refused: {text}"
