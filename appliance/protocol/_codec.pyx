"""Encodes and decodes messages by a plan, which `plan.py` makes from a field table.

A `Plan` is for one class in one version, a `Field` is one row of it. For a struct with an int16, a
compact string and a compact array of int32 the plan means

    read    0 1   'h'      error_code     two bytes, big-endian
            2     varint   host           size + 1, then as many bytes of UTF-8
            .     varint   nodes          count + 1, then four bytes for each
            .     varint   tags           count, then for each a number, a size and its bytes

Decoding trusts no size and no count: each is compared with the remaining bytes before memory is
allocated. A field that the version lacks is not written, and has its default after decoding.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.object cimport PyObject, PyObject_GetAttr, PyObject_SetAttr, PyTypeObject
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport (
    INT16_MAX, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
)
from libc.string cimport memcpy
from libcpp.string cimport string

from appliance.native._bytes cimport (
    load_i16, load_i32, load_i64, load_u32, store_i16, store_i32, store_i64,
)

import sys
from uuid import UUID

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL

cdef enum Kind:
    INT8, INT16, INT32, INT64, UINT16, UINT32, FLOAT64, BOOLEAN, ID  # of fixed width
    TEXT, DATA, ARRAY, STRUCT

cdef enum:
    VARINT_BYTES_MAX = 5           # the size of an uint32
    ID_BYTES = 16
    PART_SIZE_MIN = 4096           # below it a copy costs less than one more part of a system call

KINDS = {
    "b": INT8, "h": INT16, "i": INT32, "q": INT64, "H": UINT16, "I": UINT32, "d": FLOAT64,
    "?": BOOLEAN, "16s": ID, "text": TEXT, "data": DATA, "array": ARRAY, "struct": STRUCT,
}
NO_UUID = UUID(int=0)
cdef object NO_ID = NO_UUID, NO_ARGUMENTS = ()

# The position of decoding. `whole`: the object that fields of bytes are slices of; NULL: copies.
cdef struct Source:
    const uint8_t* data
    int64_t at
    int64_t size
    void* whole


class Malformed(Exception):
    """The bytes are no such message; the text has the position, got and wanted."""


# ---- without the GIL ----

cdef inline int64_t _width(int kind) noexcept nogil:
    if kind == INT8 or kind == BOOLEAN:
        return 1
    if kind == INT16 or kind == UINT16:
        return 2
    if kind == INT32 or kind == UINT32:
        return 4
    return ID_BYTES if kind == ID else 8


cdef inline void _put_i16(string* out, int16_t value) noexcept nogil:
    cdef uint8_t[2] raw
    store_i16(raw, value)
    out.append(<const char*>raw, 2)


cdef inline void _put_i32(string* out, int32_t value) noexcept nogil:
    cdef uint8_t[4] raw
    store_i32(raw, value)
    out.append(<const char*>raw, 4)


cdef inline void _put_i64(string* out, int64_t value) noexcept nogil:
    cdef uint8_t[8] raw
    store_i64(raw, value)
    out.append(<const char*>raw, 8)


cdef inline void _put_varint(string* out, uint64_t value) noexcept nogil:
    while value > 127:
        out.push_back(<char>(value & 127 | 128))
        value >>= 7
    out.push_back(<char>value)


# ---- with the GIL ----

cdef class Field:
    """One row: its name, its type on the wire, and its default."""

    cdef str name
    cdef int kind
    cdef bint is_nullable
    cdef bint has_factory
    cdef int64_t tag               # -1: not tagged
    cdef int64_t bytes_min         # per element of an array: limits a count
    cdef object default            # or its factory
    cdef Field each
    cdef Plan plan

    def __init__(self, str name not None, str kind not None, *, bint nullable=False,
                 int64_t tag=-1, default=None, factory=None, Field each=None, Plan plan=None,
                 int64_t bytes_min=1):
        self.name = sys.intern(name)
        self.kind = KINDS[kind]
        self.is_nullable = nullable
        self.tag = tag
        self.has_factory = factory is not None
        self.default = default if factory is None else factory
        self.each = each
        self.plan = plan
        self.bytes_min = bytes_min


cdef class Plan:
    """One class in one version: its untagged fields, its tagged fields, and those that the version
    lacks."""

    cdef object made               # a type, or Cython would want one whose type is `type` itself
    cdef tuple line
    cdef tuple tagged
    cdef tuple absent
    cdef bint is_flexible

    def __init__(self, made not None, *, tuple line not None, tuple tagged not None,
                 tuple absent not None, bint flexible):
        if not isinstance(made, type):
            raise TypeError(f"made: got {made!r}, wanted a class")
        self.made = made
        self.line = line
        self.tagged = tagged
        self.absent = absent
        self.is_flexible = flexible

    def encode(self, message not None):
        cdef string out
        _write_struct(self, message, &out, None)
        return PyBytes_FromStringAndSize(out.data(), out.size())

    def encode_parts(self, message not None):
        """As parts that are to be joined, which saves copying large fields."""
        cdef string out
        cdef list parts = []
        _write_struct(self, message, &out, parts)
        parts.append(PyBytes_FromStringAndSize(out.data(), out.size()))
        return parts

    def decode(self, octets not None, int64_t at=0, bint borrow=False):
        """The message and its end. `borrow`: fields of bytes are slices of `octets`."""
        cdef Source source
        cdef Py_buffer view
        PyObject_GetBuffer(octets, &view, PyBUF_SIMPLE)
        try:
            source.data = <const uint8_t*>view.buf
            source.at = at
            source.size = view.len
            source.whole = <void*>octets if borrow else NULL
            return _read_struct(self, &source), source.at
        finally:
            PyBuffer_Release(&view)


def skip_tags(octets not None, int64_t at):
    """The end of a tag section with unknown tags."""
    cdef Source source
    cdef Py_buffer view
    PyObject_GetBuffer(octets, &view, PyBUF_SIMPLE)
    try:
        source.data = <const uint8_t*>view.buf
        source.at = at
        source.size = view.len
        source.whole = NULL
        _skip_tags(&source)
        return source.at
    finally:
        PyBuffer_Release(&view)


cdef _default(Field field):
    return field.default() if field.has_factory else field.default


# Decoding

cdef inline int _need(Source* source, int64_t size) except -1:
    if source.size - source.at < size:
        raise Malformed(f"wanted more than {source.size} bytes")
    return 0


cdef _beyond(str name, int64_t got, Source* source):
    return Malformed(f"{name}: got a count of {got}, {source.size - source.at} bytes are left")


cdef int64_t _read_varint(Source* source) except -1:
    cdef uint64_t value = 0
    cdef uint8_t octet
    cdef int i
    for i in range(VARINT_BYTES_MAX):
        _need(source, 1)
        octet = source.data[source.at]
        source.at += 1
        value |= <uint64_t>(octet & 127) << (7 * i)
        if octet < 128:
            return <int64_t>value
    raise Malformed(f"a varint of more than five bytes before position {source.at}")


cdef _read_struct(Plan plan, Source* source):
    cdef Field field
    cdef object made = (<PyTypeObject*>plan.made).tp_new(plan.made, <PyObject*>NO_ARGUMENTS, NULL)
    for field in plan.absent:
        PyObject_SetAttr(made, field.name, _default(field))
    for field in plan.line:
        PyObject_SetAttr(made, field.name, _read(field, plan.is_flexible, source))
    if plan.is_flexible:
        if plan.tagged:
            _read_tags(plan, made, source)
        else:
            _skip_tags(source)
    return made


cdef _read(Field field, bint is_flexible, Source* source):
    cdef int64_t count
    if field.kind < TEXT:
        return _read_fixed(field.kind, source)
    if field.kind == STRUCT:
        if field.is_nullable:
            _need(source, 1)
            source.at += 1
            if source.data[source.at - 1] > 127:
                return None
        return _read_struct(field.plan, source)
    count = _read_count(field.kind, is_flexible, source)
    if count == -1 and field.is_nullable:
        return None
    if not 0 <= count * field.bytes_min <= source.size - source.at:
        raise _beyond(field.name, count, source)
    if field.kind == ARRAY:
        return _read_array(field.each, count, is_flexible, source)
    source.at += count
    if field.kind == TEXT:
        return PyUnicode_DecodeUTF8(<const char*>source.data + source.at - count, count, NULL)
    if source.whole != NULL:
        return (<object>source.whole)[source.at - count : source.at]
    return PyBytes_FromStringAndSize(<const char*>source.data + source.at - count, count)


cdef list _read_array(Field each, int64_t count, bint is_flexible, Source* source):
    cdef list found = []
    cdef int64_t _i
    for _i in range(count):
        found.append(_read(each, is_flexible, source))
    return found


cdef int64_t _read_count(int kind, bint is_flexible, Source* source) except? -2:
    """-1: null. The caller checks whether a negative size is allowed."""
    cdef int64_t count
    if is_flexible:
        return _read_varint(source) - 1
    _need(source, 2 if kind == TEXT else 4)
    if kind == TEXT:
        count = load_i16(source.data + source.at)
        source.at += 2
    else:
        count = load_i32(source.data + source.at)
        source.at += 4
    return count


cdef _read_fixed(int kind, Source* source):
    cdef const uint8_t* data = source.data + source.at
    cdef int64_t raw
    cdef double real
    _need(source, _width(kind))
    source.at += _width(kind)
    if kind == INT32:
        return load_i32(data)
    if kind == INT64:
        return load_i64(data)
    if kind == INT16:
        return load_i16(data)
    if kind == BOOLEAN:
        return data[0] != 0
    if kind == INT8:
        return <int8_t>data[0]
    if kind == UINT16:
        return <uint16_t>load_i16(data)
    if kind == UINT32:
        return load_u32(data)
    if kind == FLOAT64:
        raw = load_i64(data)
        memcpy(&real, &raw, 8)
        return real
    if load_i64(data) == 0 and load_i64(data + 8) == 0:
        return NO_ID
    return UUID(bytes=PyBytes_FromStringAndSize(<const char*>data, ID_BYTES))


cdef int _read_tags(Plan plan, object made, Source* source) except -1:
    cdef Field field
    cdef int64_t tag, size, end, _i
    for field in plan.tagged:
        PyObject_SetAttr(made, field.name, _default(field))
    for _i in range(_read_varint(source)):
        tag = _read_varint(source)
        size = _read_varint(source)
        if size > source.size - source.at:
            raise _beyond(f"tag {tag}", size, source)
        end = source.at + size
        for field in plan.tagged:
            if field.tag == tag:
                PyObject_SetAttr(made, field.name, _read(field, True, source))
                if source.at != end:
                    raise Malformed(f"tag {tag}: got {size} bytes, wanted {size + source.at - end}")
        source.at = end
    return 0


cdef int _skip_tags(Source* source) except -1:
    cdef int64_t tag, size, _i
    for _i in range(_read_varint(source)):
        tag = _read_varint(source)
        size = _read_varint(source)
        if size > source.size - source.at:
            raise _beyond(f"tag {tag}", size, source)
        source.at += size
    return 0


# Encoding. `parts` gets large fields without a copy, after everything written so far.

cdef int _write_struct(Plan plan, object message, string* out, list parts) except -1:
    cdef Field field
    for field in plan.line:
        _write(field, plan.is_flexible, PyObject_GetAttr(message, field.name), out, parts)
    if plan.is_flexible:
        _write_tags(plan, message, out)
    return 0


cdef int _write(Field field, bint is_flexible, object value, string* out, list parts) except -1:
    cdef Py_ssize_t size
    cdef const char* text
    if field.kind < TEXT:
        return _write_fixed(field.kind, value, out)
    if value is None and field.is_nullable:
        return _write_null(field.kind, is_flexible, out)
    if field.kind == STRUCT:
        if field.is_nullable:
            out.push_back(1)
        return _write_struct(field.plan, value, out, parts)
    if field.kind == TEXT:
        text = PyUnicode_AsUTF8AndSize(value, &size)
        _write_count(TEXT, is_flexible, size, out)
        out.append(text, size)
        return 0
    _write_count(field.kind, is_flexible, len(value), out)
    if field.kind == DATA:
        return _write_data(value, out, parts)
    for each in value:
        _write(field.each, is_flexible, each, out, parts)
    return 0


cdef int _write_fixed(int kind, object value, string* out) except -1:
    cdef double real
    cdef int64_t raw
    if kind == INT32:
        _put_i32(out, value)
    elif kind == INT64:
        _put_i64(out, value)
    elif kind == INT16:
        _put_i16(out, value)
    elif kind == BOOLEAN:
        out.push_back(1 if value else 0)
    elif kind == INT8:
        out.push_back(<char><int8_t>value)
    elif kind == UINT16:
        _put_i16(out, <int16_t><uint16_t>value)
    elif kind == UINT32:
        _put_i32(out, <int32_t><uint32_t>value)
    elif kind == FLOAT64:
        real = value
        memcpy(&raw, &real, 8)
        _put_i64(out, raw)
    else:
        _put_bytes(value.bytes, out)
    return 0


cdef int _write_null(int kind, bint is_flexible, string* out) except -1:
    """A struct: an int8 of -1 for null, of 1 otherwise."""
    if kind == STRUCT:
        out.push_back(<char>-1)
    elif is_flexible:
        out.push_back(0)
    else:
        out.append(2 if kind == TEXT else 4, <char>-1)
    return 0


cdef int _write_count(int kind, bint is_flexible, int64_t count, string* out) except -1:
    if is_flexible:
        _put_varint(out, count + 1)
    elif kind == TEXT:
        if count > INT16_MAX:
            raise OverflowError(f"got a text of {count} bytes, wanted at most {INT16_MAX}")
        _put_i16(out, <int16_t>count)
    else:
        _put_i32(out, <int32_t>count)
    return 0


cdef int _write_data(object value, string* out, list parts) except -1:
    """A tuple has bytes in several pieces."""
    for each in value if isinstance(value, tuple) else (value,):
        if parts is None or len(each) < PART_SIZE_MIN:
            _put_bytes(each, out)
        else:
            parts.append(PyBytes_FromStringAndSize(out.data(), out.size()))
            parts.append(each)
            out.clear()
    return 0


cdef int _put_bytes(object value, string* out) except -1:
    cdef Py_buffer view
    PyObject_GetBuffer(value, &view, PyBUF_SIMPLE)
    out.append(<const char*>view.buf, view.len)
    PyBuffer_Release(&view)
    return 0


cdef int _write_tags(Plan plan, object message, string* out) except -1:
    """The fields that differ from their defaults, in the order of their tags."""
    cdef Field field
    cdef string section, own
    cdef int64_t count = 0
    for field in plan.tagged:
        value = PyObject_GetAttr(message, field.name)
        if value != _default(field):
            count += 1
            own.clear()
            _write(field, True, value, &own, None)
            _put_varint(&section, field.tag)
            _put_varint(&section, own.size())
            section.append(own)
    _put_varint(out, count)
    out.append(section)
    return 0
