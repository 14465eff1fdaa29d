"""Memory on an OpenCL device: buffers, textures, copies, and kernels that read and write them."""

import ctypes

import numpy as np
import pytest

from tests.native.opencl_device import kernels, loaded

SIZES = ("blockIdx.x", "threadIdx.x")


@pytest.fixture(scope="module")
def tvm():
    return loaded()


@pytest.fixture(scope="module")
def device(tvm):
    return tvm.opencl(0)


def values(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Different everywhere, and exact in every type."""
    return (np.arange(np.prod(shape)) % 120).reshape(shape).astype(dtype)


@pytest.mark.parametrize("shape", [(1,), (3, 5), (0,), (7, 0, 2), (513, 1025)])
@pytest.mark.parametrize("dtype", ["float32", "int8", "bool"])
def test_a_tensor_comes_back_unchanged(tvm, device, shape, dtype):
    array = values(*shape, dtype=dtype)
    np.testing.assert_array_equal(tvm.runtime.tensor(array, device).numpy(), array)


def test_small_tensors_do_not_touch_each_other(tvm, device):
    # They are parts of shared buffers: free every other one, and fill the holes.
    sizes = [1, 3, 17, 100, 1000, 4000]
    tensors = [tvm.runtime.tensor(np.full(sizes[i % 6], i, "float32"), device) for i in range(600)]
    for i in range(0, 600, 2):
        tensors[i] = None
    for i in range(0, 600, 2):
        tensors[i] = tvm.runtime.tensor(np.full(sizes[(i + 1) % 6], i, "float32"), device)
    for i, tensor in enumerate(tensors):
        assert (tensor.numpy() == i).all()


def test_copies_go_to_views_at_an_offset(tvm, device):
    whole = tvm.runtime.tensor(np.zeros(64, "float32"), device)
    part = whole._create_view((16,), "float32", relative_byte_offset=128)
    part.copyfrom(values(16) + 1)
    assert (whole.numpy()[32:48] == values(16) + 1).all()
    assert whole.numpy().sum() == (values(16) + 1).sum()
    np.testing.assert_array_equal(part.numpy(), values(16) + 1)


def test_a_device_says_what_it_is(device):
    assert device.exist
    assert "pthread" in device.device_name or "cpu" in device.device_name
    assert device.max_threads_per_block >= 256
    assert device.max_shared_memory_per_block >= 1 << 15
    assert float(device.compute_version) >= 1.2
    assert device.multi_processor_count >= 1
    assert device.total_global_memory > 1 << 28
    assert len(device.max_thread_dimensions) == 3


def test_a_device_that_is_not_there_does_not_exist(tvm):
    assert not tvm.opencl(17).exist
    with pytest.raises(RuntimeError, match=r"no device opencl:17; this machine has \d"):
        tvm.runtime.empty((4,), "float32", tvm.opencl(17))


SCALARS = """// Function: scalars
kernel void scalars(global double* out, int a, long b, char c, short d, uchar e, float f, double g, ushort h) {
  out[0] = a; out[1] = b; out[2] = c; out[3] = d; out[4] = e; out[5] = f; out[6] = g; out[7] = h;
}
"""


def test_numbers_reach_a_kernel_in_its_own_types(tvm, device):
    types = ["handle", "int32", "int64", "int8", "int16", "uint8", "float32", "float64", "float16"]
    module = kernels(SCALARS, scalars=(types, ["blockIdx.x"]))
    out = tvm.runtime.tensor(np.zeros(8), device)
    module["scalars"](out, -5, -(2**40), -100, -30000, 200, 0.1, 0.1, -1.5, 1)
    bits = np.float16(-1.5).view("uint16")
    assert out.numpy().tolist() == [-5, -(2**40), -100, -30000, 200, np.float32(0.1), 0.1, bits]


@pytest.mark.parametrize(
    "number", [0.0, -0.0, 1 / 3, 65504, 65519.9, 65520, 1e9, -(2**-24), 1e-7, 6.1e-5, 3e-8, np.inf]
)
def test_float16_numbers_are_rounded_to_the_nearest(tvm, device, number):
    module = kernels(
        "// Function: bits\nkernel void bits(global int* out, ushort h) { out[0] = h; }\n",
        bits=(["handle", "float16"], ["blockIdx.x"]),
    )
    out = tvm.runtime.tensor(np.zeros(1, "int32"), device)
    module["bits"](out, float(number), 1)
    with np.errstate(over="ignore"):
        assert out.numpy()[0] == np.float16(number).view("uint16")


# What TVM's scopes mean, by numpy: the tensor's shape to layers, height and width.
EXTENTS = {
    "global.texture": lambda s: (s[0] * s[1], s[2], s[3]),
    "global.texture-weight": lambda s: (1, s[0], s[1] * s[2] * s[3]),
    "global.texture-nhwc": lambda s: (s[0], s[1], s[2] * s[3]),
}
SHAPE = (2, 3, 5, 7, 4)
COPY = """
constant sampler_t exact = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;
// Function: load
kernel void load(read_only image2d_array_t image, global {vector}* out, int height, int width) {{
  int i = get_global_id(0);
  out[i] = {read}(image, exact, (int4)(i % width, i / width % height, i / width / height, 0));
}}
// Function: store
kernel void store(write_only image2d_array_t image, global {vector}* in, int height, int width) {{
  int i = get_global_id(0);
  {write}(image, (int4)(i % width, i / width % height, i / width / height, 0), in[i]);
}}
"""
READS = {
    "float32": ("float4", "read_imagef", "write_imagef"),
    "int32": ("int4", "read_imagei", "write_imagei"),
    "uint32": ("uint4", "read_imageui", "write_imageui"),
}


def copy_kernels(dtype: str):
    vector, read, write = READS[dtype]
    signature = (["handle", "handle", "int32", "int32"], SIZES)
    return kernels(COPY.format(vector=vector, read=read, write=write), load=signature, store=signature)


@pytest.mark.parametrize("dtype", READS)
@pytest.mark.parametrize("scope", EXTENTS)
def test_kernels_find_a_tensors_elements_where_the_scope_puts_them(tvm, device, scope, dtype):
    array = values(*SHAPE, dtype=dtype)
    layers, height, width = EXTENTS[scope](SHAPE)
    texture = tvm.runtime.empty(SHAPE, dtype, device, scope)
    texture.copyfrom(array)
    out = tvm.runtime.empty(SHAPE, dtype, device)
    module = copy_kernels(dtype)
    module["load"](texture, out, height, width, layers * height, width)
    np.testing.assert_array_equal(out.numpy(), array)
    written = tvm.runtime.empty(SHAPE, dtype, device, scope)
    module["store"](written, out, height, width, layers * height, width)
    np.testing.assert_array_equal(written.numpy(), array)


@pytest.mark.parametrize("dtype", ["float16", "int8", "uint8", "int16"])
def test_textures_hold_small_types_too(tvm, device, dtype):
    texture = tvm.runtime.empty(SHAPE, dtype, device, "global.texture")
    texture.copyfrom(values(*SHAPE, dtype=dtype))
    np.testing.assert_array_equal(texture.numpy(), values(*SHAPE, dtype=dtype))


@pytest.mark.parametrize("to", ["global", "global.texture"])
@pytest.mark.parametrize("start", ["global", "global.texture"])
def test_copies_on_the_device_between_buffers_and_textures(tvm, device, start, to):
    source = tvm.runtime.empty(SHAPE, "float32", device, start)
    source.copyfrom(values(*SHAPE))
    target = tvm.runtime.empty(SHAPE, "float32", device, to)
    source.copyto(target)
    np.testing.assert_array_equal(target.numpy(), values(*SHAPE))


def test_textures_between_two_steps_of_a_kernel(tvm, device):
    allocate = tvm.get_global_func("device_api.opencl.alloc_nd")
    free = tvm.get_global_func("device_api.opencl.free_nd")
    extents = (ctypes.c_int64 * 3)(7, 5, 6)
    pointer = ctypes.c_void_p(ctypes.addressof(extents))
    module = copy_kernels("float32")
    given = tvm.runtime.tensor(values(6, 5, 7, 4), device)
    out = tvm.runtime.empty((6, 5, 7, 4), "float32", device)
    first = allocate(device.dlpack_device_type(), 0, 2, 32, "global.texture", 3, pointer, 128)
    module["store"](first, given, 5, 7, 30, 7)
    module["load"](first, out, 5, 7, 30, 7)
    np.testing.assert_array_equal(out.numpy(), values(6, 5, 7, 4))
    free(device.dlpack_device_type(), 0, "global.texture", first)
    again = allocate(device.dlpack_device_type(), 0, 2, 32, "global.texture", 3, pointer, 128)
    assert again.value == first.value  # the pool's
    free(device.dlpack_device_type(), 0, "global.texture", again)


@pytest.mark.parametrize(
    ("shape", "scope", "message"),
    [
        ((4, 4, 3), "global.texture", "the last one of 4 elements"),
        ((4, 4), "global.texture", "at least 3 dimensions"),
        ((1, 1, 1, 10**6, 4), "global.texture", "a texture of width 1000000, height 1 and 1 layers does not fit"),
        ((2, 2, 4), "global.texture-nchw", "'global.texture-nchw' is not a kind of texture"),
    ],
)
def test_a_texture_that_cannot_be_is_refused_with_the_reason(tvm, device, shape, scope, message):
    with pytest.raises((ValueError, RuntimeError), match=message):
        tvm.runtime.empty(shape, "float32", device, scope)


def test_memory_that_is_not_there_is_refused_with_the_sizes(tvm, device):
    with pytest.raises(RuntimeError, match=r"cannot allocate a buffer of 4194304\.0 MiB on '.*' \(it has .* MiB"):
        tvm.runtime.empty((1 << 40,), "float32", device)
