"""What a user reads when a kernel cannot run."""

import numpy as np
import pytest

from tests.native.opencl_device import kernels, loaded, module_bytes

SIZES = ("blockIdx.x", "threadIdx.x")
ADD = "// Function: add_one\nkernel void add_one(global float* a) { a[get_global_id(0)] += 1; }\n"


@pytest.fixture(scope="module")
def tvm():
    return loaded()


@pytest.fixture
def tensor(tvm):
    return tvm.runtime.tensor(np.zeros(64, "float32"), tvm.opencl(0))


def test_a_group_that_is_too_large_names_kernel_sizes_and_limits(tensor):
    module = kernels(ADD, add_one=(["handle"], SIZES))
    with pytest.raises(RuntimeError) as error:
        module["add_one"](tensor, 2, 1 << 20)
    message = str(error.value)
    assert "CL_INVALID_WORK_GROUP_SIZE (-54)" in message or "CL_INVALID_WORK_ITEM_SIZE (-55)" in message
    assert "cannot launch kernel 'add_one' with 2097152×1×1 work items in groups of 1048576×1×1" in message
    assert "takes groups of up to" in message
    assert "of local memory" in message


def test_a_kernel_that_does_not_compile_is_named_with_the_compilers_words(tensor):
    module = kernels(
        "// Function: bad\nkernel void bad(global float* a) { a[0] = missing; }\n", bad=(["handle"], SIZES)
    )
    with pytest.raises(
        RuntimeError, match=r"(?s)kernel 'bad' does not compile for '.*CL_BUILD_PROGRAM_FAILURE.*missing"
    ):
        module["bad"](tensor, 1, 1)


def test_a_message_is_one_line_and_the_log_has_the_compilers_others(tensor, capfd):
    source = "// Function: bad\nkernel void bad(global float* a) { a[0] = missing; a[1] = gone; }\n"
    module = kernels(source, bad=(["handle"], SIZES))
    with pytest.raises(RuntimeError) as error:
        module["bad"](tensor, 1, 1)
    assert "\n" not in str(error.value) and "missing" in str(error.value)
    assert "gone" in capfd.readouterr().err


def test_float16_is_refused_in_plain_words_where_the_device_has_none(tensor):
    source = (
        "#ifdef cl_khr_fp16\n#else\n#error no half\n#endif\n"
        "// Function: k\nkernel void k(global float* a) { a[0] = 1; }\n"
    )
    with pytest.raises(RuntimeError, match=r"kernel 'k' computes in float16, and '.*' does not \(no cl_khr_fp16\)"):
        kernels(source, k=(["handle"], SIZES))["k"](tensor, 1, 1)


def test_local_memory_that_is_not_there_names_the_kernel_and_both_sizes(tvm, tensor):
    too_many = tvm.opencl(0).max_shared_memory_per_block // 4 + 1
    source = (
        "// Function: wide\nkernel void wide(global float* a) {\n"
        f"  local float kept[{too_many}]; kept[get_local_id(0)] = a[0]; barrier(CLK_LOCAL_MEM_FENCE); a[1] = kept[0];\n}}\n"
    )
    sizes = r"needs [\d.]+ \wiB of local memory, and '.*' has [\d.]+ \wiB"
    with pytest.raises(RuntimeError, match=rf"kernel 'wide' {sizes}: CL_OUT_OF_RES"):
        kernels(source, wide=(["handle"], SIZES))["wide"](tensor, 1, 1)


def test_a_device_reports_what_decides_whether_packages_run(tvm):
    report = dict(line.split("=") for line in tvm.get_global_func("tvmake.opencl.limits")(0).splitlines())
    assert report["float16"] == "no"
    assert [int(extent) >= 2048 for extent in report["images"].split(" x ")] == [True] * 3


def test_a_buffer_where_a_texture_is_needed_is_named_with_its_place(tvm, tensor):
    source = (
        "// Function: k\nkernel void k(global float* a, read_only image2d_array_t b) { a[0] = get_image_width(b); }\n"
    )
    module = kernels(source, k=(["handle", "handle"], SIZES))
    with pytest.raises(ValueError, match="kernel 'k' takes a texture as argument 1, and got a buffer"):
        module["k"](tensor, tensor, 1, 1)
    texture = tvm.runtime.empty((2, 3, 4), "float32", tvm.opencl(0), "global.texture")
    with pytest.raises(ValueError, match="kernel 'k' takes a buffer as argument 0, and got a texture"):
        module["k"](texture, texture, 1, 1)
    module["k"](tensor, texture, 1, 1)
    assert tensor.numpy()[0] == 3


def test_arguments_that_are_too_few_are_counted(tensor):
    module = kernels(ADD, add_one=(["handle"], SIZES))
    with pytest.raises(TypeError, match="kernel 'add_one' takes 1 arguments and 2 launch sizes, and got 2 in all"):
        module["add_one"](tensor, 1)


def test_a_tensor_of_another_device_is_refused(tvm):
    module = kernels(ADD, add_one=(["handle"], SIZES))
    with pytest.raises(ValueError, match="kernel 'add_one' takes whole tensors on an OpenCL device only"):
        module["add_one"](tvm.runtime.tensor(np.zeros(4, "float32")), 1, 1)


def test_a_failed_launch_leaves_the_device_usable(tensor):
    module = kernels(ADD, add_one=(["handle"], SIZES))
    with pytest.raises(RuntimeError):
        module["add_one"](tensor, 1, 1 << 20)
    module["add_one"](tensor, 2, 32)
    assert (tensor.numpy() == 1).all()


def test_a_damaged_module_is_refused(tvm):
    load = tvm.get_global_func("ffi.Module.load_from_bytes.opencl")
    whole = module_bytes(ADD, {"add_one": (["handle"], SIZES)})
    for length in range(0, len(whole) - 1, 7):
        with pytest.raises(ValueError, match="this module is damaged"):
            load(whole[:length])
    with pytest.raises(ValueError, match="not OpenCL C source"):
        load(whole.replace(b"\x02\0\0\0\0\0\0\0cl", b"\x02\0\0\0\0\0\0\0xx", 1))


def test_the_module_shows_its_source_and_has_only_its_kernels(tensor):
    module = kernels(ADD, add_one=(["handle"], SIZES))
    assert module.inspect_source("") == ADD
    assert module.implements_function("add_one")
    assert not module.implements_function("add_two")
