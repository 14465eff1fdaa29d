"""Processors of the catalogue, and their target attributes for TVM."""

from dataclasses import dataclass

Attribute = int | str | list[str]

OPENCL = "opencl"

SAFE_WARP = 1
"""Threads per warp that TVM assumes for OpenCL, whatever the device's warp is. Repair: `opencl-warps`."""


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
    """Threads of a block or work group that schedules may use. Kernels with many registers allow fewer than the
    device's limit, so this is smaller for phones."""
    shared_bytes: int
    """Local memory of a work group, in bytes."""
    warp: int
    """Threads that run in lockstep; 1 if they do not, or if unknown."""
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
            extra_key: an additional target key (``texture``, ``clml``) that selects TVM's passes.
        """
        attributes: dict[str, Attribute] = {}
        if self.device:
            attributes["device"] = self.device
            attributes["keys"] = [key for key in (self.device, self.kind, "gpu", extra_key) if key]
        if self.arch:
            attributes["arch"] = self.arch
        attributes["max_num_threads"] = attributes["max_threads_per_block"] = self.threads
        attributes["max_shared_memory_per_block"] = self.shared_bytes
        attributes["thread_warp_size"] = self.warp if self.kind != OPENCL else SAFE_WARP
        if self.images:
            attributes["texture_spatial_limit"] = self.images.spatial
            attributes["texture_depth_limit"] = self.images.layers
            attributes["image_base_address_alignment"] = self.images.base_alignment
        return attributes


@dataclass(frozen=True)
class Cpu:
    """A CPU core."""

    name: str
    mcpu: str
    """LLVM's name of the core."""
    what: str
    source: str
    triples: tuple[tuple[str, str], ...] = ()
    """System and LLVM triple; empty for the compiling machine's."""
    mattr: tuple[str, ...] = ()
    """Features beyond those of ``mcpu``."""
    is_conservative: bool = False

    def systems(self) -> dict[str, dict[str, Attribute]]:
        """TVM's attributes by system; an empty system means the compiling machine's."""
        attributes: dict[str, Attribute] = {"mcpu": self.mcpu}
        if self.mattr:
            attributes["mattr"] = list(self.mattr)
        if not self.triples:
            return {"": attributes}
        return {system: {"mtriple": triple, **attributes} for system, triple in self.triples}
