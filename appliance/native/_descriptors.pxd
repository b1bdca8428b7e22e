"""Files that the logs hold open: how many they may, directories that are open while somebody needs
them, and what is done when no more may be opened.

A partition that nobody reads or writes holds no descriptor at all. So a few thousand of them are
enough for ten thousand partitions, and a start needs as many as it has threads, whatever there is.
"""

from libc.stdint cimport int64_t
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string

from appliance.native._native cimport mutex

# An open file, closed by its last owner: a reader may hold it long after retention unlinked it.
cdef cppclass File:
    int fd

ctypedef shared_ptr[File] FileRef

# Takes a descriptor over.
cdef FileRef file_own(int fd) noexcept nogil

# The same for one that somebody else closes.
cdef FileRef file_borrow(int fd) noexcept nogil

# The directory of a partition. `fd` is for whoever has a hold of it.
cdef cppclass Directory:
    FileRef parent                 # constant; the data directory
    string name                    # constant
    mutex guard
    FileRef file                   # guard; empty while nobody needs it
    int fd                         # of `file`; -1: it is not open
    int64_t device, inode          # guard; what the name stands for; 0: not known yet
    bint is_left                   # guard; the name may be another directory's from now on

ctypedef shared_ptr[Directory] DirectoryRef

cdef DirectoryRef directory_new(const FileRef& parent, const string& name) noexcept nogil

# One that is open already and stays so.
cdef DirectoryRef directory_of(const FileRef& file) noexcept nogil

# Opens it if need be; it stays open for as long as `hold` lives. LOG_CLOSED: it was left.
cdef int directory_hold(Directory* directory, FileRef* hold) noexcept nogil

# Closes it if nobody holds it; whether it was open.
cdef bint directory_rest(Directory* directory) noexcept nogil

# It is about to be moved or removed: not to be opened by this name again.
cdef void directory_leave(Directory* directory) noexcept nogil

# A file of a log's, within the limit: a descriptor or a code.
cdef int open_counted(int directory_fd, const char* name, int flags) noexcept nogil

# Lets go of files that can be opened again; whether any was. For whoever got FILES_EXHAUSTED and
# holds no lock.
cdef bint descriptors_relieve() noexcept nogil

# The same while some are still free: at three quarters of what logs may open, and after each eighth
# that is opened from there on. For a thread that serves no client and holds no lock.
cdef void descriptors_look_ahead() noexcept nogil

# Whether that would let go of any.
cdef bint descriptors_are_many() noexcept nogil

# What both of them call: `_idle_file_closing.pyx`.
ctypedef int64_t (*Relief)() noexcept nogil
cdef void descriptors_relieved_by(Relief relief) noexcept nogil

cdef int64_t descriptors_most() noexcept nogil
