"""mod.json: a package's contents, origin and interface."""

from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from tvmake.artifact.signature import Signature
from tvmake.storage.documents import FailsFast
from tvmake.storage.files import canonical_json, digest_bytes

OLDEST_SCHEMA_VERSION: Final = 2
SHAPES_SCHEMA_VERSION: Final = 3
"""With functions for several shapes."""

SCHEMA_VERSION: Final = 4
"""With states. Packages have the oldest version that suffices, so that earlier releases read them."""

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
    """The source of its schedule: a tuning record, a rule for the target, or None for plain loops."""
    record_sha256: str | None = None
    """Digest of the tuning record that scheduled it."""


class Coverage(_Part):
    """How many kernels that tuning considers use a record, and which do not."""

    tuned: int
    tunable: int
    time_share: float = Field(default=0.0, ge=0, le=1)
    """Share of the tunable kernels' estimated time that tuned ones have."""
    basis: Literal["latency", "operations"] = "operations"
    """The basis of estimated times: measured latencies, or operation counts without measurements."""
    misses: dict[str, str]
    """Tunable kernels without a record, the slowest first, and why."""
    not_tunable: dict[str, str] = Field(default_factory=dict)
    """Kernels that are not tuned, and why."""


class UnscheduledKernel(_Part):
    """A kernel without a schedule, or with blocks that have none."""

    name: str
    time_share: float = Field(ge=0, le=1)
    """The share of the package's estimated time in these blocks, over all calls."""
    blocks: list[str] = Field(default_factory=list)
    """Its blocks without a schedule; empty if no block has one."""
    reason: str
    dims: list[str] = Field(default_factory=list)
    """The dynamic dimensions that prevent a schedule: with fixed sizes there would be one."""
    is_tunable: bool = False
    """Whether tuning would look for a schedule."""


class Unscheduled(_Part):
    """Code without a schedule: plain loops on one core of a CPU; on a GPU, reductions with only TVM's general rule."""

    time_share: float = Field(default=0.0, ge=0, le=1)
    """Share of the package's estimated time; by operations, weighted on CPUs by how long each takes with and without a schedule."""
    kernels: list[UnscheduledKernel] = Field(default_factory=list)
    """Kernels with at least 1 % of the time, the slowest first."""
    layout_failure: str = ""
    """Why convolutions keep a layout that is slower on the target; empty if none does."""


class Placement(_Part):
    """The kernels and values of a texture package that are in images; the bytes count arguments and computed values."""

    image_kernels: int
    buffer_kernels: int
    image_bytes: int
    buffer_bytes: int
    largest_image: tuple[int, int, int]
    """Width and height in pixels, and layers, that suffice for each of its images."""
    in_buffers: dict[str, str]
    """The kernels without an image, and why."""


class ClmlPart(_Part):
    """A function of the package that Qualcomm's CLML library computes if available, else kernels."""

    name: str
    layers: list[str]
    """The computation, as names of patterns (``relu.bias.nn.conv2d``)."""
    weights: list[str]
    """The parameters that it uses."""
    weight_bytes: int
    """Of these, and of constants of the network."""


class SelfTest(_Part):
    """A package's self-test: inputs and expected outputs in self_test.npz (:mod:`tvmake.artifact.tensor_file`)."""

    samples: int = 0
    inputs: Literal["random", "dataset"] = "random"
    reference: str = ""
    """The framework that computed the expected outputs."""
    goals: dict[str, float] = Field(default_factory=dict)
    """The goals for each sample's outputs, by the keys of ``validation.goals``."""
    why_not: str = ""
    """Why there are fewer samples than requested, or none."""


class GraphNode(_Part):
    """One binding of the lowered graph: the callee, its arguments, and its result."""

    name: str
    call: str
    inputs: list[str]
    shape: list[int | str] | None = None
    dtype: str | None = None


class RowRange(_Part):
    """Sizes of a dimension whose rows are independent, such as a batch, that a function for a fixed size computes, too.

    Fewer rows than the function has are padded. More rows take several calls, the last of them for the rest.
    """

    dimension: str
    least: int
    """The smallest size."""
    most: int | None = None
    """The largest size; None without one."""


class PackageFunction(_Part):
    """Code for some sizes of dynamic dimensions, with which ``main`` computes inputs of these sizes."""

    name: str
    sizes: dict[str, int]
    """By dimension; empty for the code that takes all other sizes."""
    kernels: list[str]
    """The kernels that it calls; functions may share them."""
    rows: RowRange | None = Field(default=None, exclude_if=lambda value: value is None)
    """Other sizes that it computes, in packages without dynamic code."""


class Component(_Part):
    """A library that took part in making the package."""

    name: str
    version: str


class Manifest(_Part):
    """The content of mod.json; every field is a function of the inputs, so rebuilding gives the same bytes."""

    schema_version: Literal[2, 3, 4] = OLDEST_SCHEMA_VERSION
    model: str
    precision: str
    target_name: str
    network: dict[str, str]
    """sha256 of the network's files: module.json, module.params, signature.json.

    A file beside the package names the model file (``tvmake.provenance.origin``): two files with the same network, but for example
    with other comments, give the same package.
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
    """Only for targets with textures."""
    clml: list[ClmlPart] | None = Field(default=None, exclude_if=lambda value: value is None)
    """Only for targets with CLML."""
    kernels: list[Kernel]
    graph: list[GraphNode]
    functions: list[PackageFunction] = Field(default_factory=list, exclude_if=lambda value: not value)
    """In the order in which ``main`` compares sizes; none if all sizes have the same code."""
    why_refused: str = Field(default="", exclude_if=lambda value: not value)
    """Why sizes that no function has are refused, if they are."""
    files: dict[str, FileEntry]
    components: list[Component]
    provenance: dict[str, Any] = Field(default_factory=dict)
    """An in-toto statement (v1) with an SLSA provenance predicate, unsigned."""
    self_test: SelfTest | None = Field(default=None, exclude_if=lambda value: value is None)
    """None in packages of older versions, and without a self-test."""
    is_source_quantized: bool = Field(default=False, exclude_if=lambda value: not value)
    """Whether the source model itself rounds activations, to integers, to bfloat16, or to float16 before it returns bytes."""
    own_sha256: str = ""
    """sha256 of this manifest without this field, as canonical JSON: it detects copying errors and edits, not forgery."""

    def sealed(self) -> "Manifest":
        """This manifest with its schema version and its own digest filled in."""
        without_states = SHAPES_SCHEMA_VERSION if self.functions else OLDEST_SCHEMA_VERSION
        version = SCHEMA_VERSION if self.signature.states else without_states
        versioned = self.model_copy(update={"schema_version": version})
        return versioned.model_copy(update={"own_sha256": versioned._digest()})

    @property
    def device_kind(self) -> str:
        """The runtime's name for the kind of device that its kernels run on (``cpu``, ``opencl``, ``cuda``)."""
        kind = str(self.target.get("kind", "llvm"))
        return "cpu" if kind in ("llvm", "c") else kind

    @property
    def is_intact(self) -> bool:
        """Whether the content is unchanged since it was sealed."""
        return self.own_sha256 == self._digest()

    def _digest(self) -> str:
        return digest_bytes(canonical_json(self.model_dump(mode="json", exclude={"own_sha256"})).encode())
