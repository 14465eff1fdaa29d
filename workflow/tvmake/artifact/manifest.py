"""mod.json: what a package is, what it was made from, and how to call it."""

from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from tvmake.artifact.signature import Signature
from tvmake.storage.documents import FailsFast
from tvmake.storage.files import canonical_json, digest_bytes

SCHEMA_VERSION: Final = 2

STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "https://slsa.dev/provenance/v1"


class _Part(FailsFast, BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FileEntry(_Part):
    """A file of the package: sha256 (hex) and size in bytes."""

    sha256: str
    size: int


class Parameter(_Part):
    """A trailing argument of ``main``, in order; a weight packed for a tuned kernel is named ``<source>_packed``."""

    name: str
    shape: tuple[int, ...]
    dtype: str


class Kernel(_Part):
    """A compiled tensor function: the digest of its tensor IR, how often the graph calls it, whether a record tuned it."""

    name: str
    sha256: str
    calls: int
    is_tuned: bool = False
    scheduled: Literal["record", "rule", "default"] = "default"
    """What its schedule comes from: a tuning record, a rule for the target, or nothing, which means plain loops."""
    record_sha256: str | None = None
    """Digest of the tuning record that scheduled it."""


class Coverage(_Part):
    """How many kernels that tuning considers use a record, and which do not."""

    tuned: int
    tunable: int
    time_share: float = Field(default=0.0, ge=0, le=1)
    """Share of the tunable kernels' estimated time that tuned ones have."""
    basis: Literal["latency", "operations"] = "operations"
    """What times are estimated by: measured latencies, or operations where nothing was measured."""
    misses: dict[str, str]
    """Tunable kernels without a record, the slowest first, and why."""
    not_tunable: dict[str, str] = Field(default_factory=dict)
    """Kernels that tuning leaves alone, and why."""


class UnscheduledKernel(_Part):
    """A kernel without a schedule, or with blocks that have none."""

    name: str
    time_share: float = Field(ge=0, le=1)
    """Share of the package's estimated time that these blocks take, all calls together."""
    blocks: list[str] = Field(default_factory=list)
    """Its blocks without a schedule; empty where none has one."""
    reason: str
    dims: list[str] = Field(default_factory=list)
    """The dynamic dimensions that keep it from a schedule: it gets one where they are fixed."""
    is_tunable: bool = False
    """Whether tuning would look for a schedule."""


class Unscheduled(_Part):
    """What no schedule covers: plain loops on one core of a CPU; on a GPU, reductions that only TVM's general rule takes."""

    time_share: float = Field(default=0.0, ge=0, le=1)
    """Share of the package's estimated time; by operations, weighted on CPUs by how long each takes with and without a schedule."""
    kernels: list[UnscheduledKernel] = Field(default_factory=list)
    """Those that take at least 1 % of the time, the slowest first."""
    layout_failure: str = ""
    """Why convolutions keep a layout that suits the target less; empty where none had to."""


class Placement(_Part):
    """Which kernels and values of a package for textures are in images; the bytes count arguments and what is computed."""

    image_kernels: int
    buffer_kernels: int
    image_bytes: int
    buffer_bytes: int
    largest_image: tuple[int, int, int]
    """Width and height in pixels, and layers, that hold each of its images."""
    in_buffers: dict[str, str]
    """The kernels without an image, and why."""


class ClmlPart(_Part):
    """A function of the package that Qualcomm's CLML library computes where there is one, and kernels elsewhere."""

    name: str
    layers: list[str]
    """What it computes, by the names of patterns (``relu.bias.nn.conv2d``)."""
    weights: list[str]
    """The parameters that it takes."""
    weight_bytes: int
    """Of these, and of constants of the network."""


class SelfTest(_Part):
    """What the package tests itself by: inputs and expected outputs in self_test.npz (:mod:`tvmake.artifact.tensor_file`)."""

    samples: int = 0
    inputs: Literal["random", "dataset"] = "random"
    reference: str = ""
    """The framework that gave the expected outputs."""
    goals: dict[str, float] = Field(default_factory=dict)
    """What each sample's outputs have to reach, by the keys of ``validation.goals``."""
    why_not: str = ""
    """Why there are fewer samples than were wanted, or none."""


class GraphNode(_Part):
    """One binding of the lowered graph: what is called, on which values, giving what."""

    name: str
    call: str
    inputs: list[str]
    shape: list[int | str] | None = None
    dtype: str | None = None


class Component(_Part):
    """A library that took part in making the package."""

    name: str
    version: str


class Manifest(_Part):
    """The content of mod.json; every field is a function of the inputs, so rebuilding gives the same bytes."""

    schema_version: Literal[2] = SCHEMA_VERSION
    model: str
    precision: str
    target_name: str
    network: dict[str, str]
    """sha256 of the files of the network that it was built from: module.json, module.params, signature.json.

    The model file that it came from is named in a file beside the package (``tvmake.provenance.origin``): two files that hold the same
    network, with other comments say, give the same package.
    """
    signature: Signature
    parameters: list[Parameter]
    target: dict[str, Any]
    """TVM's full target, host included, with ``native`` resolved."""
    build: dict[str, Any]
    """The build request."""
    libinfo: dict[str, str]
    """TVM's build switches that shape code: LLVM version, CUDA, OpenCL, git revision."""
    records_sha256: str | None = None
    """Digest of the best records (best.json) the kernels were built with; None when kernels are not tuned."""
    coverage: Coverage
    unscheduled: Unscheduled | None = Field(default=None, exclude_if=lambda value: value is None)
    """None in packages of versions that did not estimate it."""
    placement: Placement | None = None
    """For targets with textures alone."""
    clml: list[ClmlPart] | None = Field(default=None, exclude_if=lambda value: value is None)
    """For targets with CLML alone."""
    kernels: list[Kernel]
    graph: list[GraphNode]
    files: dict[str, FileEntry]
    components: list[Component]
    provenance: dict[str, Any] = Field(default_factory=dict)
    """An in-toto statement (v1) with an SLSA provenance predicate, unsigned."""
    self_test: SelfTest | None = Field(default=None, exclude_if=lambda value: value is None)
    """None in packages of versions before there were any, and where none is wanted."""
    is_source_quantized: bool = Field(default=False, exclude_if=lambda value: not value)
    """Whether the model that it was made from rounds activations itself, to integers or to bfloat16."""
    own_sha256: str = ""
    """sha256 of this manifest without this field, as canonical JSON: tells a copying error or an edit, not a forger."""

    def sealed(self) -> "Manifest":
        """This manifest with its own digest filled in."""
        return self.model_copy(update={"own_sha256": self._digest()})

    @property
    def device_kind(self) -> str:
        """The runtime's name for the kind of device that its kernels run on (``cpu``, ``opencl``, ``cuda``)."""
        kind = str(self.target.get("kind", "llvm"))
        return "cpu" if kind in ("llvm", "c") else kind

    @property
    def is_intact(self) -> bool:
        """Whether the content is what it was when it was sealed."""
        return self.own_sha256 == self._digest()

    def _digest(self) -> str:
        return digest_bytes(canonical_json(self.model_dump(mode="json", exclude={"own_sha256"})).encode())
