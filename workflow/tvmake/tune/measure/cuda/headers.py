"""The headers of CUDA's C++ library that TVM's generated source includes, without what float32 kernels have no use for.

Parsing libcu++ takes NVRTC 0.5 to 0.9 s a candidate, more than most kernels themselves, for eight names of integers. NVRTC
prefers headers from memory to files, so that TVM's own compile function, with all its options, can be used. The kernels'
machine code is the same.
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
"""Declared for TVM's ``using``; see :func:`is_plain` for why nothing more is needed."""

HEADERS = {b"cuda/std/cstdint": INTEGERS, b"cuda/std/limits": LIMITS, b"cuda/std/type_traits": TRAITS}

HOST = {"cstdint", "type_traits", "cuda.h"}
"""Included for nvcc only."""

INCLUDE = re.compile(r"^\s*#\s*include\s*[<\"]([^>\"]+)", re.MULTILINE)
USING = re.compile(r"^\s*using cuda::std::\w+;$", re.MULTILINE)


def is_plain(source: str) -> bool:
    """Whether source uses nothing of libcu++ but names of integers."""
    known = {name.decode() for name in HEADERS} | HOST
    return set(INCLUDE.findall(source)) <= known and "std::" not in USING.sub("", source)


@contextmanager
def plain_headers() -> Iterator[None]:
    """NVRTC programs that are created in this block have :data:`HEADERS`."""
    from cuda.bindings import nvrtc

    create = nvrtc.nvrtcCreateProgram

    def with_headers(code: bytes, name: bytes, *_: object) -> object:
        return create(code, name, len(HEADERS), list(HEADERS.values()), list(HEADERS))

    nvrtc.nvrtcCreateProgram = with_headers
    try:
        yield
    finally:
        nvrtc.nvrtcCreateProgram = create
