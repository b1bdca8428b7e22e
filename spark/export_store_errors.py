"""What an object store's errors mean, in one line with what to do."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from appliance.export.store_urls import is_hdfs

MAX = 300  # characters of a library's own text

NAMES = {  # of the settings that each library reads, by the scheme
    "s3": ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"),
    "gs": ("STORAGE_EMULATOR_HOST, if it is not Google's", "GOOGLE_APPLICATION_CREDENTIALS"),
    "abfs": ("the account in the URL, AZURE_STORAGE_CONNECTION_STRING",
             "AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT_KEY, "
             "AZURE_STORAGE_SAS_TOKEN, or AZURE_STORAGE_CLIENT_ID with its secret and tenant"),
}
RIGHTS = ("the credentials here lack a right: exports read, write, delete and list objects of this "
          "folder{}")
MORE_RIGHTS = {
    "s3": (" (GetObject, PutObject, DeleteObject, ListBucket, AbortMultipartUpload, "
           "ListBucketMultipartUploads)"),
    "gs": " (storage.objects.get, .create, .delete, .list)",
    "abfs": " (Storage Blob Data Contributor, or a token with racwdl)",
}
REGION = "it is in another region: set AWS_DEFAULT_REGION to that of the bucket"
UNKNOWN = "the store does not know these credentials: check {credentials}"
UNREACHED = ("its service cannot be reached from here: check the address ({address}), and the "
             "network")
NONE = ("there are no credentials here: set {credentials} in the environment, or have them in the "
        "files of the store's library")

CODES = {
    "AccessDenied": RIGHTS, "AllAccessDisabled": RIGHTS, "403": RIGHTS,
    "InvalidAccessKeyId": UNKNOWN, "SignatureDoesNotMatch": UNKNOWN, "ExpiredToken": UNKNOWN,
    "InvalidToken": UNKNOWN, "XAdminUserNotFound": UNKNOWN,  # the last: of Versity's gateway
    "PermanentRedirect": REGION, "301": REGION, "AuthorizationHeaderMalformed": REGION,
    "IllegalLocationConstraintException": REGION,
    "401": UNKNOWN,  # of GCS
    "AuthorizationFailure": RIGHTS, "AuthorizationPermissionMismatch": RIGHTS,  # of Azure
    "AuthorizationProtocolMismatch": RIGHTS, "AuthorizationResourceTypeMismatch": RIGHTS,
    "AuthorizationServiceMismatch": RIGHTS, "AuthorizationSourceIPMismatch": RIGHTS,
    "InsufficientAccountPermissions": RIGHTS, "AuthenticationFailed": UNKNOWN,
    "NoAuthenticationInformation": NONE, "PublicAccessNotPermitted": NONE,
}
CLASSES = {  # of botocore, aiohttp, google-auth and azure-core, by name: none may be installed
    "EndpointConnectionError": UNREACHED, "ConnectTimeoutError": UNREACHED,
    "ConnectionClosedError": UNREACHED, "ReadTimeoutError": UNREACHED, "HTTPClientError": UNREACHED,
    "ClientConnectorError": UNREACHED, "ServiceRequestError": UNREACHED,
    "ServerDisconnectedError": UNREACHED, "ServiceResponseError": UNREACHED,
    "ConnectionRefusedError": UNREACHED, "ProxyConnectionError": UNREACHED,
    "NoCredentialsError": NONE, "PartialCredentialsError": NONE, "DefaultCredentialsError": NONE,
    "ProfileNotFound": NONE, "ClientAuthenticationError": UNKNOWN, "RefreshError": UNKNOWN,
    "PermissionError": RIGHTS,
}

NOTHING_SET = ("Anonymous caller",  # gcsfs asks without a name when it finds none
               "Must provide either a connection_string", "Connection string is either blank")
_ADDRESS = "the NameNode's HTTP address (dfs.namenode.http-address, mostly port 9870)"
_QUOTA = "a quota of HDFS is full there: raise it, or delete files (hdfs dfsadmin -setSpaceQuota)"
_NO_KERBEROS = ("this HDFS wants a login (Kerberos), which exports into HDFS do not have: mount "
                "it, and export to a path")
_NOT_HDFS = f"nothing speaks WebHDFS at this address: wanted {_ADDRESS}"
HDFS = {  # by Hadoop's name, or by the status if there is none
    "SafeModeException": "the NameNode is in safe mode, in which it takes no changes: wait until "
                         "it has left it (hdfs dfsadmin -safemode get)",
    "NSQuotaExceededException": _QUOTA, "DSQuotaExceededException": _QUOTA,
    "QuotaByStorageTypeExceededException": _QUOTA,
    "StandbyException": "this NameNode is in standby: name the active one",
    "RetriableException": "the NameNode is starting: try again when it is up",
    "AccessControlException": "HDFS does not let this user do it: HADOOP_USER_NAME says who asks, "
                              "here and at each worker, else the user of the process",
    "AuthenticationException": _NO_KERBEROS, "401": _NO_KERBEROS,
    "DataNode": "a DataNode does not answer: driver and workers need to reach all of them, under "
                "the names that the NameNode has for them",
    "400": _NOT_HDFS, "404": _NOT_HDFS, "405": _NOT_HDFS,
}
HDFS_CLASSES = {
    "JSONDecodeError": _NOT_HDFS,
    "RequestException": f"HDFS cannot be reached from here: check {_ADDRESS}, and the network",
}


def in_words(where: str, error: BaseException) -> str:
    if is_no_bucket(error):
        return no_bucket(where)
    if is_hdfs(where):
        told = HDFS.get(_code(error)) or _by_class(error, HDFS_CLASSES)
    else:
        told = _words(where.partition(":")[0], _meaning(error))
    said = " ".join(str(error).split())[:MAX]
    named = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return f"{where}: {told} ({named})" if told else f"{where}: {named}"


def no_bucket(where: str) -> str:
    return f"{where}: there is no such bucket, or container; create it first"


def _meaning(error: BaseException) -> str | None:
    text = str(error)
    if any(each in text for each in NOTHING_SET):
        return NONE
    if "failed to authenticate" in text:  # of Azure: by the code Azurite calls it a right
        return UNKNOWN
    if text.startswith("Forbidden: "):  # gcsfs has an OSError of 403
        return RIGHTS
    return CODES.get(_code(error)) or _by_class(error, CLASSES)


def _words(scheme: str, meaning: str | None) -> str | None:
    scheme = "abfs" if scheme == "abfss" else scheme
    if meaning is None or scheme not in NAMES:
        return meaning
    address, credentials = NAMES[scheme]
    return meaning.format(MORE_RIGHTS[scheme], address=address, credentials=credentials)


def _by_class(error: BaseException, classes: dict[str, str]) -> str | None:
    each: BaseException | None = error
    while each is not None:
        for kind in type(each).__mro__:
            if kind.__name__ in classes:
                return classes[kind.__name__]
        each = each.__cause__
    return None


def is_no_bucket(error: BaseException) -> bool:
    text = f"{_code(error)} {error}"
    known = ("NoSuchBucket", "ContainerNotFound", "The specified container does not exist")
    return any(each in text for each in known) or (
        isinstance(error, FileNotFoundError) and "bucket" in text and "not exist" in text)


def is_exists(error: BaseException) -> bool:
    """Also where another writer is at it just now (409), whose object is there or not."""
    status = _response(error).get("ResponseMetadata", {}).get("HTTPStatusCode")
    return isinstance(error, FileExistsError) or status in (
        HTTPStatus.PRECONDITION_FAILED, HTTPStatus.CONFLICT)


def _code(error: BaseException) -> str:
    """Of botocore, of azure-core, which adlfs has wrapped at times, of gcsfs, or of HDFS."""
    if kind := getattr(error, "kind", ""):
        return str(kind)
    if found := _response(error).get("Error", {}).get("Code", ""):
        return str(found)
    for each in (error, error.__cause__):
        for name in ("error_code", "code"):
            if isinstance(found := getattr(each, name, None), (str, int)):
                return str(getattr(found, "value", found))
    return ""


def _response(error: BaseException) -> dict[str, Any]:
    """Of botocore's error, which s3fs has translated into one of Python's."""
    for each in (error, error.__cause__):
        found = getattr(each, "response", None)
        if isinstance(found, dict):
            return found
    return {}
