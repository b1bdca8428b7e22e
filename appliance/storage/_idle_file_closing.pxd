"""Closes idle files when no more may be opened."""

from appliance.storage._commit_requests cimport CommitterRef
from appliance.storage._partition_log cimport LogRef

# From now on this log's idle files are closed when another's are to be opened.
cdef void relief_watch(const CommitterRef& committer, const LogRef& log) noexcept nogil
