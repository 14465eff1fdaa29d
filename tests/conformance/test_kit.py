"""A device's self-test: every question has an answer, whatever the device does."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.device.configs import device_config
from tests.device.local.test_local import own_store  # noqa: F401  # a fixture
from tests.process.fixtures import shared_servers  # noqa: F401  # a fixture
from tests.requirements import need
from tvmake.artifact.tensor_file import member, read_array, write_array
from tvmake.config.target import TargetConfig
from tvmake.conformance.kit import SETS, Kit
from tvmake.conformance.networks import OPERATORS, PROBES, network
from tvmake.conformance.report import Answer, Report
from tvmake.device.connect import connect
from tvmake.device.interface import Deployment, Device, RunRequest, RunResult
from tvmake.errors import DeviceError

pytestmark = pytest.mark.usefixtures("shared_servers")

CPU = {"cpu": TargetConfig(kind="llvm")}
GPU = {"gpu": TargetConfig(tag="adreno-buffer")}
FEW = {"operators": OPERATORS[7:9], "probes": PROBES[9:10]}
"""sigmoid, softmax, vector_booleans."""


class Faulty:
    """This machine, with a fault: something is done to the outputs of each run. It measures no rates.

    Args:
        spoil: gets the arrays by member's name, and changes them or raises.
    """

    def __init__(self, spoil: Callable[[dict[str, np.ndarray]], None]):
        self.real = connect("local", device_config())
        self.name = "local"
        self.spoil = spoil

    def __getattr__(self, name: str) -> object:
        return getattr(self.real, name)

    def execute(self, deployment: Deployment, request: RunRequest, inputs: Path, outputs: Path) -> RunResult:
        if request.measurement:
            raise DeviceError("device 'local'", "it has no clock")
        result = self.real.execute(deployment, request, inputs, outputs)
        with zipfile.ZipFile(outputs) as archive:
            arrays = {name: read_array(archive, name).copy() for name in archive.namelist()}
        self.spoil(arrays)
        with zipfile.ZipFile(outputs, "w") as archive:
            for name, array in arrays.items():
                write_array(archive, name, array)
        return result


def report_of(device: Device, targets: dict[str, TargetConfig] = CPU, sets=FEW, precision="float32") -> Report:
    return Kit(device, "local", "local", targets, (precision,), sets, progress=lambda line: None).report()


def verdicts(answers: list[Answer]) -> dict[str, str]:
    return {answer.name: answer.verdict for answer in answers}


def test_this_machine_computes_all_of_it(own_store):  # noqa: F811
    report = report_of(connect("local", device_config()), sets=SETS)
    assert verdicts(report.answers) == {question.name: "ok" for question in (*OPERATORS, *PROBES)}
    assert min(answer.sqnr_db for answer in report.answers) > 100 and report.faults == []
    assert Report.model_validate(json.loads(report.model_dump_json())) == report


def test_a_wrong_output_is_found_and_says_what_it_represents(own_store):  # noqa: F811
    def negate(arrays: dict[str, np.ndarray]) -> None:
        if (name := member("output", "vector_booleans", 0)) in arrays:
            arrays[name] *= -1

    report = report_of(Faulty(negate))
    assert verdicts(report.answers) == {"sigmoid": "ok", "softmax": "ok", "vector_booleans": "wrong"}
    (fault,) = report.faults
    assert fault.problem == "booleans of vectors are -1 in OpenCL C, and 1 everywhere else" and fault.sqnr_db < 0


def test_one_crash_costs_one_answer(own_store):  # noqa: F811
    def crash(arrays: dict[str, np.ndarray]) -> None:
        if member("output", "softmax", 0) in arrays:
            raise DeviceError("device 'local'", "the driver crashed")

    report = report_of(Faulty(crash))
    assert verdicts(report.answers) == {"sigmoid": "ok", "softmax": "failed", "vector_booleans": "ok"}
    assert [fault.problem for fault in report.faults] == ["the driver crashed"]


def test_a_feature_that_a_device_lacks_is_not_a_fault(own_store):  # noqa: F811
    need("PoCL")
    report = report_of(connect("local", device_config()), GPU, FEW, "float16")
    assert set(verdicts(report.answers).values()) == {"not there"} and report.faults == []
    assert report.fingerprints["opencl"].details["float16"] == "no"


@pytest.mark.parametrize("questions", [OPERATORS, PROBES])
def test_questions_have_names_of_their_own_and_outputs_that_matter(questions):
    asked = network(questions)
    assert len(asked.expected) == len(questions)
    assert all(value.std() > 1e-3 or value.size == 1 for value in asked.expected.values())
    assert network(questions).model == asked.model
