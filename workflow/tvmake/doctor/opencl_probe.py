"""List the OpenCL devices behind this machine's loader, as JSON.

It is a separate process (``python -m tvmake.doctor.opencl_probe LIBRARY``) because a vendor's driver can crash its process.
Constants are those of CL/cl.h (OpenCL 3.0).
"""

import ctypes
import json
import sys
from typing import Any

CL_DEVICE_NOT_FOUND = -1
CL_PLATFORM_NOT_FOUND_KHR = -1001
CL_DEVICE_TYPE_ALL = 0xFFFFFFFF

PLATFORM_NAME, PLATFORM_VERSION = 0x0902, 0x0901
DEVICE_TYPE, DEVICE_IMAGE_SUPPORT, DEVICE_NAME, DRIVER_VERSION, DEVICE_VERSION, DEVICE_EXTENSIONS = (
    0x1000, 0x1016, 0x102B, 0x102D, 0x102F, 0x1030,
)  # fmt: skip
TYPES = {2: "cpu", 4: "gpu", 8: "accelerator"}


def platforms(library: Any) -> list[dict[str, Any]]:
    """Every platform with its devices: name, type, driver, float16 arithmetic, images.

    Raises:
        OSError: the loader answers with an error code.
    """
    return [
        {
            "name": _text(library.clGetPlatformInfo, platform, PLATFORM_NAME),
            "version": _text(library.clGetPlatformInfo, platform, PLATFORM_VERSION),
            "devices": [
                _device(library, device)
                for device in _handles(library.clGetDeviceIDs, platform, ctypes.c_ulong(CL_DEVICE_TYPE_ALL))
            ],
        }
        for platform in _handles(library.clGetPlatformIDs)
    ]


def _device(library: Any, device: ctypes.c_void_p) -> dict[str, Any]:
    query = library.clGetDeviceInfo
    kind = int.from_bytes(_info(query, device, DEVICE_TYPE), sys.byteorder)
    return {
        "name": _text(query, device, DEVICE_NAME),
        "type": next((name for bit, name in TYPES.items() if kind & bit), "other"),
        "version": _text(query, device, DEVICE_VERSION),
        "driver": _text(query, device, DRIVER_VERSION),
        "float16": "cl_khr_fp16" in _text(query, device, DEVICE_EXTENSIONS).split(),
        "images": bool(int.from_bytes(_info(query, device, DEVICE_IMAGE_SUPPORT), sys.byteorder)),
    }


def _handles(function: Any, *arguments: Any) -> list[ctypes.c_void_p]:
    count = ctypes.c_uint()
    code = function(*arguments, 0, None, ctypes.byref(count))
    if code in (CL_DEVICE_NOT_FOUND, CL_PLATFORM_NOT_FOUND_KHR):
        return []
    _check(code)
    handles = (ctypes.c_void_p * count.value)()
    _check(function(*arguments, count, handles, None))
    return [ctypes.c_void_p(handle) for handle in handles]


def _info(function: Any, handle: ctypes.c_void_p, key: int) -> bytes:
    size = ctypes.c_size_t()
    _check(function(handle, key, ctypes.c_size_t(0), None, ctypes.byref(size)))
    value = ctypes.create_string_buffer(size.value)
    _check(function(handle, key, size, value, None))
    return value.raw


def _text(function: Any, handle: ctypes.c_void_p, key: int) -> str:
    return _info(function, handle, key).rstrip(b"\0").decode(errors="replace").strip()


def _check(code: int) -> None:
    if code:
        raise OSError(code, f"OpenCL error {code}")


if __name__ == "__main__":
    print(json.dumps(platforms(ctypes.CDLL(sys.argv[1]))))
