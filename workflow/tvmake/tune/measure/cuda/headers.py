"""Minimal replacements of the CUDA C++ headers that TVM's generated source includes.

Parsing libcu++ takes NVRTC 0.5 to 0.9 s per candidate, more than most kernels, for eight integer type names. NVRTC prefers
headers in memory to files, so TVM's own compile function works with all its options. The machine code is identical.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

INTEGERS = b"""
namespace cuda { namespace std {
typedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long long int64_t;
typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
} }
"""

LIMITS = b"""
namespace cuda { namespace std {
template <class T> struct numeric_limits;
template <> struct numeric_limits<float> {
  __device__ static float infinity() { return __int_as_float(0x7f800000); }
};
} }
"""

TRAITS = b"""
namespace cuda { namespace std {
template <class T, class U> struct is_same;
template <class T, class U> inline constexpr bool is_same_v = false;
template <class T> struct is_integral;
template <class T> struct is_signed;
template <class T> struct is_unsigned;
template <class T> struct is_floating_point;
template <bool B, class T> struct enable_if;
template <bool B, class T, class F> struct conditional;
} }
"""
"""Declared for TVM's ``using``; :func:`is_plain` explains why this suffices."""

HEADERS = {b"cuda/std/cstdint": INTEGERS, b"cuda/std/limits": LIMITS, b"cuda/std/type_traits": TRAITS}

HOST = {"cstdint", "type_traits", "cuda.h"}
"""Included for nvcc only."""

INCLUDE = re.compile(r"^\s*#\s*include\s*[<\"]([^>\"]+)", re.MULTILINE)
USING = re.compile(r"^\s*using cuda::std::\w+;$", re.MULTILINE)


def is_plain(source: str) -> bool:
    """Whether source uses only integer type names of libcu++."""
    known = {name.decode() for name in HEADERS} | HOST
    return set(INCLUDE.findall(source)) <= known and "std::" not in USING.sub("", source)


@contextmanager
def plain_headers() -> Iterator[None]:
    """Provide :data:`HEADERS` to NVRTC programs that are created in this block."""
    from cuda.bindings import nvrtc

    create = nvrtc.nvrtcCreateProgram

    def with_headers(code: bytes, name: bytes, *_: object) -> object:
        return create(code, name, len(HEADERS), list(HEADERS.values()), list(HEADERS))

    nvrtc.nvrtcCreateProgram = with_headers
    try:
        yield
    finally:
        nvrtc.nvrtcCreateProgram = create
