"""Read images through their sampler.

OpenCL 1.2 also has reads with a sampler, and the generated sampler clamps, so it is always used.
Repair: `opencl-image-reads`.
"""

import re

CHOICE = re.compile(
    r"#ifdef __OPENCL_VERSION__\n#if __OPENCL_VERSION__ == CL_VERSION_2_0[^\n]*\n(?P<sampled>.*?)#else\n.*?#endif\n#endif\n",
    re.DOTALL,
)


def with_sampler(source: str) -> str:
    """The source with only the macros that use a sampler."""
    return CHOICE.sub(lambda match: match["sampled"], source)
