"""Read images through their sampler.

TVM 0.27 generates macros that read without a sampler unless the kernel is compiled as OpenCL C 2.0 or 3.0, which drivers
do only when they are told to. Such a read is undefined outside of the image, where schedules may read what they then do
not use. OpenCL 1.2 has reads with a sampler too, and the generated one clamps, so that it is used always. Remove when
tests/targets/opencl/test_image_reads.py::test_tvm_still_reads_without_a_sampler fails.
"""

import re

CHOICE = re.compile(
    r"#ifdef __OPENCL_VERSION__\n#if __OPENCL_VERSION__ == CL_VERSION_2_0[^\n]*\n(?P<sampled>.*?)#else\n.*?#endif\n#endif\n",
    re.DOTALL,
)


def with_sampler(source: str) -> str:
    """The source with the macros that use a sampler only."""
    return CHOICE.sub(lambda found: found["sampled"], source)
