"""What the catalogue says of a processor, and how it becomes TVM's target attributes."""

from dataclasses import dataclass

Attribute = int | str | list[str]

OPENCL = "opencl"

SAFE_WARP = 1
"""What TVM must take a warp for in OpenCL, whatever the device has: from two threads on, TVM 0.27 ends a reduction in a
branch that only the first warp enters, with barriers in it that all threads of the group have to reach
(``LowerThreadAllreduce``; OpenCL has no barrier for a warp). Some drivers run that, others hang or fault."""


@dataclass(frozen=True)
class Images:
    """Limits of two-dimensional OpenCL images, in pixels and layers."""

    spatial: int
    """CL_DEVICE_IMAGE2D_MAX_WIDTH and _HEIGHT, the smaller of the two."""
    layers: int
    """CL_DEVICE_IMAGE_MAX_ARRAY_SIZE."""
    base_alignment: int = 64
    """CL_DEVICE_IMAGE_BASE_ADDRESS_ALIGNMENT."""


@dataclass(frozen=True)
class Gpu:
    """A GPU, or a family whose members have the same limits."""

    name: str
    kind: str
    what: str
    source: str
    threads: int
    """Threads of a block or work group that schedules may use. A kernel that needs many registers can have fewer than
    the device's own limit, which is why this is smaller for phones."""
    shared_bytes: int
    """Local memory of a work group, in bytes."""
    warp: int
    """Threads that run in step; 1 where they do not, or it is not known."""
    has_float16: bool
    device: str | None = None
    """TVM's word for the vendor: ``adreno``, ``mali``."""
    images: Images | None = None
    arch: str | None = None
    """CUDA's architecture."""
    members: tuple[str, ...] = ()
    """Names of single GPUs of the family."""
    is_conservative: bool = False

    def attributes(self, extra_key: str | None = None) -> dict[str, Attribute]:
        """TVM's attributes.

        Args:
            extra_key: a target key beyond the device's (``texture``, ``clml``), which chooses TVM's passes.
        """
        own: dict[str, Attribute] = {}
        if self.device:
            own["device"] = self.device
            own["keys"] = [key for key in (self.device, self.kind, "gpu", extra_key) if key]
        if self.arch:
            own["arch"] = self.arch
        own["max_num_threads"] = own["max_threads_per_block"] = self.threads
        own["max_shared_memory_per_block"] = self.shared_bytes
        own["thread_warp_size"] = self.warp if self.kind != OPENCL else SAFE_WARP
        if self.images:
            own["texture_spatial_limit"] = self.images.spatial
            own["texture_depth_limit"] = self.images.layers
            own["image_base_address_alignment"] = self.images.base_alignment
        return own


@dataclass(frozen=True)
class Cpu:
    """A CPU core."""

    name: str
    mcpu: str
    """LLVM's name of it."""
    what: str
    source: str
    triples: tuple[tuple[str, str], ...] = ()
    """System and LLVM triple; without any, the compiling machine's."""
    mattr: tuple[str, ...] = ()
    """Features beyond those of ``mcpu``."""
    is_conservative: bool = False

    def systems(self) -> dict[str, dict[str, Attribute]]:
        """TVM's attributes by system; the system is empty where the compiling machine's is meant."""
        own: dict[str, Attribute] = {"mcpu": self.mcpu}
        if self.mattr:
            own["mattr"] = list(self.mattr)
        if not self.triples:
            return {"": own}
        return {system: {"mtriple": triple, **own} for system, triple in self.triples}
