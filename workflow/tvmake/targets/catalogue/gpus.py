"""GPUs of the catalogue.

Work-group sizes of phones are about half of CL_DEVICE_MAX_WORK_GROUP_SIZE: a kernel's own limit
(CL_KERNEL_WORK_GROUP_SIZE) falls with its number of registers, and larger launches fail.
"""

from tvmake.targets.catalogue.processors import Gpu, Images

ADRENO_IMAGES = Images(spatial=16384, layers=2048)
MALI_IMAGES = Images(spatial=65536, layers=2048, base_alignment=32)

_CLINFO = "CL_DEVICE_MAX_WORK_GROUP_SIZE 1024, 32 KiB local memory, images 16384 x 16384 x 2048, cl_khr_fp16"
_WAVE = "waves of 64 as Qualcomm's own kernels in llama.cpp assume (ggml-org/llama.cpp#11950)"


def _adreno(family: str, chips: str, threads: int, source: str, is_conservative: bool = False) -> Gpu:
    return Gpu(
        name=f"adreno-{family}" if family else "adreno",
        kind="opencl",
        what=f"Qualcomm Adreno {family}".strip(),
        source=source,
        threads=threads,
        shared_bytes=32768,
        warp=64,
        has_float16=True,
        device="adreno",
        images=ADRENO_IMAGES,
        members=tuple(f"adreno-{chip}" for chip in chips.split()),
        is_conservative=is_conservative,
    )


def _mali(family: str, chips: str, threads: int, warp: int, source: str, is_conservative: bool = False) -> Gpu:
    return Gpu(
        name=f"mali-{family}",
        kind="opencl",
        what=f"Arm Mali {family.title()}",
        source=source,
        threads=threads,
        shared_bytes=32768,
        warp=warp,
        has_float16=True,
        device="mali",
        images=MALI_IMAGES,
        members=tuple(f"mali-{chip}" for chip in chips.split()),
        is_conservative=is_conservative,
    )


def _cuda(arch: int, what: str) -> Gpu:
    return Gpu(
        name=f"cuda-sm{arch}",
        kind="cuda",
        what=f"NVIDIA {what}",
        source="CUDA C++ Programming Guide, technical specifications per compute capability (48 KiB without opting in)",
        threads=1024,
        shared_bytes=49152,
        warp=32,
        has_float16=True,
        arch=f"sm_{arch}",
    )


GPUS: tuple[Gpu, ...] = (
    _adreno("", "", 256, "the smallest figures of the families below", is_conservative=True),
    _adreno(
        "5xx",
        "505 506 508 509 510 512 530 540",
        256,
        f"clinfo of an Adreno 505 (BOINC/boinc#1742); {_WAVE}; work groups chosen small",
        is_conservative=True,
    ),
    _adreno(
        "6xx",
        "610 612 615 616 618 619 620 630 640 642l 643 644 650 660 680 690",
        512,
        f"clinfo of Adreno 6xx phones (BOINC/boinc#3613, ggml-org/llama.cpp#2133): {_CLINFO}; {_WAVE}",
    ),
    _adreno(
        "7xx",
        "702 710 720 725 730 732 735 740 750",
        512,
        f"device queries of an Adreno 730 and a 740 (CodeLinaro/llama.cpp#17): {_CLINFO}; {_WAVE}",
    ),
    _adreno(
        "8xx",
        "810 825 829 830 840",
        512,
        "as Adreno 7xx; no report of an 8xx was at hand",
        is_conservative=True,
    ),
    _mali(
        "midgard",
        "t604 t628 t720 t760 t820 t830 t860 t880",
        128,
        1,
        "clinfo of a Mali-T860 (plaidml/plaidml#182): 256 work items, 32 KiB, images 65536 x 65536 x 2048; threads run "
        "alone (Arm Mali Midgard OpenCL Developer Guide)",
    ),
    _mali(
        "bifrost",
        "g31 g51 g52 g71 g72 g76",
        192,
        4,
        "clinfo of a Mali-G71 (96boards-hikey/linux#59) and a G52 (ARM-software/ComputeLibrary#999): 384 work items, "
        "multiples of 4",
    ),
    _mali(
        "valhall",
        "g57 g68 g77 g78 g310 g510 g610 g710 g615 g715 g720 g925",
        256,
        16,
        "warps of 16 (Arm Mali Bifrost and Valhall OpenCL Developer Guide); work groups chosen small",
        is_conservative=True,
    ),
    Gpu(
        "opencl-generic",
        "opencl",
        "any OpenCL device",
        "the least that OpenCL 1.2's embedded and full profiles let one expect of a GPU, and TVM's own defaults",
        threads=128,
        shared_bytes=16384,
        warp=1,
        has_float16=False,
        is_conservative=True,
    ),
    Gpu(
        "opencl-nvidia",
        "opencl",
        "NVIDIA GPU through OpenCL",
        "clinfo of NVIDIA's driver: 1024 work items, 48 KiB, images 16384 x 32768 x 2048, no cl_khr_fp16",
        threads=1024,
        shared_bytes=49152,
        warp=32,
        has_float16=False,
        images=Images(spatial=16384, layers=2048),
    ),
    Gpu(
        "opencl-intel",
        "opencl",
        "Intel GPU through OpenCL",
        "Intel's compute runtime: 64 KiB local memory, cl_khr_fp16, images 16384 x 16384 x 2048; work groups chosen small",
        threads=256,
        shared_bytes=65536,
        warp=16,
        has_float16=True,
        images=Images(spatial=16384, layers=2048),
        is_conservative=True,
    ),
    Gpu(
        "opencl-pocl",
        "opencl",
        "a CPU through PoCL",
        "clinfo of PoCL 3.1: 4096 work items, images 16384 x 16384 x 2048, no cl_khr_fp16; work groups chosen small",
        threads=256,
        shared_bytes=32768,
        warp=1,
        has_float16=False,
        images=Images(spatial=16384, layers=2048),
    ),
    _cuda(75, "Turing"),
    _cuda(80, "A100"),
    _cuda(86, "Ampere (RTX 30, A10)"),
    _cuda(87, "Jetson Orin"),
    _cuda(89, "Ada (RTX 40, L4)"),
    _cuda(90, "Hopper (H100, H200)"),
)
