"""URLs of object stores that an export can have as its target."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

WANTED = (
    "s3://BUCKET/FOLDER, gs://BUCKET/FOLDER, abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/FOLDER "
    "or webhdfs://NAMENODE:PORT/FOLDER"
)


class UrlWrong(ValueError):
    """Shows no user and no password."""


class Kind(NamedTuple):
    scheme: str  # the one that is stored
    package: str  # ours, with the extra that has the library


KINDS = {
    "s3": Kind("s3", "appliance-log[s3]"),
    "s3a": Kind("s3", "appliance-log[s3]"),
    "gs": Kind("gs", "appliance-log[gcs]"),
    "gcs": Kind("gs", "appliance-log[gcs]"),
    "abfs": Kind("abfs", "appliance-log[abfs]"),
    "abfss": Kind("abfss", "appliance-log[abfs]"),
    "webhdfs": Kind("webhdfs", "appliance-log[hdfs]"),
}
OTHER_HDFS = ("hdfs", "swebhdfs", "viewfs")
NO_ICEBERG = (
    "got an Iceberg table of files in HDFS, which pyiceberg reads only by a JVM: wanted none, a "
    "target in another store, or a path to which HDFS is mounted"
)
UNREADABLE = "?#%*[]{}"  # patterns and escapes to one reader or another


def is_url(text: str) -> bool:
    return "://" in text and not text.startswith("file://")


def is_hdfs(url: str) -> bool:
    return url.startswith("webhdfs://")


def checked(text: str) -> str:
    """In one way of writing it, since manifests, tables and reports are compared by it."""
    try:
        parts = urlsplit(text)
    except ValueError as error:
        scheme, _, rest = text.partition("://")
        place = f"{scheme}://{rest.rpartition('@')[2]}"[:200]
        raise UrlWrong(f"got the target {place}, which is no URL: {error}") from error
    user, _, host = parts.netloc.rpartition("@")
    place = f"{parts.scheme}://{host}{parts.path}"[:200]
    if parts.scheme in OTHER_HDFS:
        raise UrlWrong(
            f"got {place}, wanted webhdfs://NAMENODE:PORT/FOLDER for HDFS, with the port of its "
            "HTTP address (mostly 9870): workers are Python processes, which speak WebHDFS alone"
        )
    if parts.scheme not in KINDS:
        raise UrlWrong(f"got {place}, wanted a path, {WANTED}")
    kind = KINDS[parts.scheme]
    if ":" in user or (user and not kind.scheme.startswith("abfs")):
        raise UrlWrong(
            f"got a user or a password in the URL of {place}: credentials are read from the "
            "environment, or from the files of the store's library"
        )
    if is_hdfs(text) and not _has_port(parts):
        raise UrlWrong(f"got {place}, wanted webhdfs://NAMENODE:PORT/FOLDER, with a port")
    folders = parts.path.strip("/").split("/")
    if not host or any(each in ("", ".", "..") for each in folders) or set(text) & set(UNREADABLE):
        raise UrlWrong(f"got {place}, wanted {WANTED}, without any of {UNREADABLE} and \"..\"")
    return f"{kind.scheme}://{parts.netloc}/{'/'.join(folders)}"


def _has_port(parts: SplitResult) -> bool:
    try:
        return parts.hostname is not None and bool(parts.port)
    except ValueError:  # no number
        return False


def package_of(url: str) -> str:
    return KINDS[urlsplit(url).scheme].package
