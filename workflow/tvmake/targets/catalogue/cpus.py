"""CPUs of the catalogue."""

from tvmake.targets.catalogue.processors import Cpu

LINUX, ANDROID = ("linux", "aarch64-linux-gnu"), ("android", "aarch64-linux-android")

_ARM = "the core's name in LLVM, whose features are those of Arm's technical reference manual"
_DOT = ("+dotprod", "+fullfp16")


def _arm(core: str, what: str, systems: tuple[tuple[str, str], ...] = (LINUX, ANDROID)) -> Cpu:
    return Cpu(core, core, what, _ARM, systems)


CPUS: tuple[Cpu, ...] = (
    Cpu(
        "aarch64", "generic", "any 64-bit Arm CPU", "Armv8-A with NEON, which every one has", (LINUX, ANDROID),
        is_conservative=True,
    ),
    Cpu(
        "armv8.2", "cortex-a55", "64-bit Arm CPUs from 2018 on: float16 arithmetic and dot products",
        "features that every core since Cortex-A55 and A75 has", (LINUX, ANDROID), _DOT,
    ),
    _arm("cortex-a53", "Raspberry Pi 3, i.MX 8M, Snapdragon 4xx and 6xx"),
    _arm("cortex-a55", "i.MX 93, little cores since Snapdragon 845"),
    _arm("cortex-a57", "Jetson TX1 and Nano", (LINUX,)),
    _arm("cortex-a72", "Raspberry Pi 4, RK3399", (LINUX, ANDROID)),
    _arm("cortex-a73", "Snapdragon 835, Amlogic S922X"),
    _arm("cortex-a75", "Snapdragon 845"),
    _arm("cortex-a76", "Raspberry Pi 5, RK3588, Snapdragon 855"),
    _arm("cortex-a77", "Snapdragon 865", (ANDROID,)),
    _arm("cortex-a78", "Snapdragon 888, Jetson Orin, Dimensity 1200"),
    _arm("cortex-x1", "Snapdragon 888 (prime core)", (ANDROID,)),
    _arm("cortex-a710", "Snapdragon 8 Gen 1", (ANDROID,)),
    _arm("neoverse-n1", "AWS Graviton 2, Ampere Altra", (LINUX,)),
    _arm("neoverse-v1", "AWS Graviton 3", (LINUX,)),
    Cpu("x86-64-v2", "x86-64-v2", "x86 from 2009 on (SSE 4.2)", "x86-64 psABI, micro-architecture levels"),
    Cpu("x86-64-v3", "x86-64-v3", "x86 from 2013 on (AVX2, FMA)", "x86-64 psABI, micro-architecture levels"),
    Cpu("x86-64-v4", "x86-64-v4", "x86 servers with AVX-512", "x86-64 psABI, micro-architecture levels"),
)  # fmt: skip
