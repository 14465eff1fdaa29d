"""The interface of a device, however it is reached.

A device holds packages by digest and executes requests on them. Each request is complete in itself (which package,
which inputs, what to measure) and is run by a fresh process on the device, so that a crash, a hang or a leak ends
with the request, and so that a Python process, a native runner over ssh or adb, and an RPC session can all serve it.
"""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field

from tvmake.artifact.fingerprint import Fingerprint
from tvmake.config.benchmark import Measurement


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Deployment(_Message):
    """A package on a device."""

    device: str
    package_sha256: str
    location: str
    """Where it lies, in the device's terms."""
    size_bytes: int


class RunRequest(_Message):
    """One execution: run samples, then measure, as far as the request says."""

    samples: int = Field(ge=1)
    """How many samples of the inputs file to run; see :mod:`tvmake.artifact.tensor_file` for its members."""
    want_outputs: bool = True
    """Return every sample's outputs."""
    repeat_first: bool = False
    """Run sample 0 once more at the end and return it as one further sample."""
    measurement: Measurement | None = None
    """Time sample 0 like this; None measures nothing."""
    wants_memory: bool = Field(default=True, exclude_if=lambda value: value)
    """Whether the timing's memory is of use; where it is not, a process may be forked from one that has the runtime loaded, which
    takes a twentieth of the time."""


class Timing(_Message):
    """Raw figures of one execution; times in ms, memory in bytes."""

    load_ms: float
    """From opening the package's files to a virtual machine with its parameters."""
    first_run_ms: float
    warmup_ms: list[float] = Field(default_factory=list)
    samples_ms: list[float] = Field(default_factory=list)
    """Each the mean of ``number`` runs."""
    number: int = 1
    op_runs: list["OpTime"] = Field(default_factory=list)
    peak_memory_bytes: int = 0
    """Peak resident memory of the process; 0 where that is not known."""
    baseline_memory_bytes: int = 0
    """Resident memory before the package was loaded: the runtime's own; 0 where that is not known."""
    conditions: dict[str, str] = Field(default_factory=dict)
    """What else to know about these figures."""


class OpTime(_Message):
    """One kernel in one profiled run."""

    name: str
    run: int
    ms: float


class RunResult(_Message):
    """What one execution gave; outputs lie in the outputs file."""

    timing: Timing
    fingerprint: Fingerprint


class Device(Protocol):
    """A device, or one of several equal ones."""

    name: str

    def push(self, package: Path) -> Deployment:
        """Bring a package to the device, unless its digest is there already.

        Raises:
            InputError: the package is damaged.
            DeviceError: the device cannot be reached or written.
        """
        ...

    def execute(self, deployment: Deployment, request: RunRequest, inputs: Path, outputs: Path | None) -> RunResult:
        """Run a deployed package on the inputs in an ``.npz`` file; write its outputs to another.

        Raises:
            DeviceError: the run crashed, hung, or the device was lost.
            InputError: the deployed files no longer match their digests, or the inputs do not fit.
        """
        ...

    def fingerprint(self, kind: str = "cpu") -> Fingerprint:
        """Who the device is, for kernels that run on its device of a kind (``cpu``, ``opencl``, ``cuda``).

        Raises:
            DeviceError: it cannot be reached.
        """
        ...

    def exclusive(self) -> AbstractContextManager[None]:
        """Wait until nobody measures on the device, and keep others from it until the block ends.

        Raises:
            MachineError: the wait cannot be arranged here.
        """
        ...
