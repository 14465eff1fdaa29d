"""The interface of a device, independent of the transport.

A device stores packages by digest and executes requests on them. Each request is complete (package, inputs,
measurement) and runs in a new process on the device. So a crash, a hang or a leak ends with the request, and a Python
process, a native runner over ssh or adb, and an RPC session can all serve it.
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
    """Its path on the device."""
    size_bytes: int


class RunRequest(_Message):
    """One execution: run samples, then measure, as requested."""

    samples: int = Field(ge=1)
    """The number of samples in the inputs file to run; :mod:`tvmake.artifact.tensor_file` describes the file."""
    steps: int = Field(default=0, ge=0, exclude_if=lambda value: not value)
    """The number of samples in a sequence, with each of which a package's states restart; 0: all are one."""
    want_outputs: bool = True
    """Return the outputs of every sample."""
    repeat_first: bool = False
    """Run sample 0 again at the end, and return it as an additional sample."""
    measurement: Measurement | None = None
    """How to time sample 0; None for no measurement."""
    timed_steps: int = Field(default=0, ge=0, exclude_if=lambda value: not value)
    """With a measurement: the number of samples to time one by one, in sequences; 0: none."""
    wants_memory: bool = Field(default=True, exclude_if=lambda value: value)
    """Whether memory figures are needed; if not, the process may be forked from one with the runtime loaded, which takes a
    twentieth of the time."""


class Timing(_Message):
    """Figures of one execution; times in ms, memory in bytes."""

    load_ms: float
    """The time to open the package's files and create a virtual machine with its parameters."""
    first_run_ms: float
    warmup_ms: list[float] = Field(default_factory=list)
    samples_ms: list[float] = Field(default_factory=list)
    """Means of ``number`` runs each."""
    number: int = 1
    steps_ms: list[list[float]] = Field(default_factory=list)
    """The time of each step, by sequence."""
    op_runs: list["OpTime"] = Field(default_factory=list)
    peak_memory_bytes: int = 0
    """Peak resident memory of the process; 0 if unknown."""
    baseline_memory_bytes: int = 0
    """Resident memory of the runtime, before the package was loaded; 0 if unknown."""
    conditions: dict[str, str] = Field(default_factory=dict)
    """The circumstances of the measurement."""


class OpTime(_Message):
    """The time of one kernel in a profiled run."""

    name: str
    run: int
    ms: float


class RunResult(_Message):
    """The result of one execution; its outputs are in the outputs file."""

    timing: Timing
    fingerprint: Fingerprint


class Device(Protocol):
    """A device, or several equal ones."""

    name: str

    def push(self, package: Path) -> Deployment:
        """Copy a package to the device, unless the device has its digest.

        Raises:
            InputError: the package is damaged.
            DeviceError: the device cannot be reached or written.
        """
        ...

    def execute(self, deployment: Deployment, request: RunRequest, inputs: Path, outputs: Path | None) -> RunResult:
        """Run a deployed package on the inputs of an ``.npz`` file; write the outputs to another.

        Raises:
            DeviceError: the run crashed, hung, or the device was lost.
            InputError: the deployed files do not match their digests, or the inputs do not match the signature.
        """
        ...

    def fingerprint(self, kind: str = "cpu") -> Fingerprint:
        """The device's identity, for kernels of a kind (``cpu``, ``opencl``, ``cuda``).

        Raises:
            DeviceError: it cannot be reached.
        """
        ...

    def exclusive(self) -> AbstractContextManager[None]:
        """Wait until no other process measures on the device, and exclude others until the block ends.

        Raises:
            MachineError: the lock file cannot be written.
        """
        ...
