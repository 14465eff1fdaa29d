"""Validate: run a deployed package on the reference's inputs and judge its numerics."""

import tempfile
import zipfile
from pathlib import Path

from tvmake.artifact import stage_json
from tvmake.artifact.signature import TensorSpec
from tvmake.artifact.tensor_file import member, read_array
from tvmake.config.requests.running import ValidateRequest
from tvmake.device.connect import connect
from tvmake.device.interface import RunRequest
from tvmake.validate.numerics import Comparison, NumericsReport
from tvmake.validate.reference_set import ReferenceSet
from tvmake.validate.result import Numerics


def validate(package: Path, reference: Path, request: ValidateRequest, numerics: Path) -> NumericsReport:
    """Compare a package with its source model and write ``numerics``, whatever the verdict.

    A package that misses its goals is a result, not a failure of the stage: the figures are worth having.

    Raises:
        InputError: the package or the reference is damaged, or they do not belong together.
        DeviceError: the run crashed or the device was lost.
    """
    known = ReferenceSet(reference)
    device = connect(request.device_name, request.device)
    deployment = device.push(package)
    asked = RunRequest(samples=len(known), repeat_first=bool(request.goals.repeatable))
    comparison = Comparison(request.goals)
    with tempfile.TemporaryDirectory(prefix="tvmake-validate-") as directory:
        outputs = Path(directory) / "outputs.npz"
        result = device.execute(deployment, asked, reference, outputs)
        with zipfile.ZipFile(outputs) as archive:
            specs = known.info.signature.outputs
            for number, sample in enumerate(known):
                comparison.add(sample.outputs, _outputs(archive, specs, number), sample.labels)
            if asked.repeat_first:
                comparison.add_repeat(_outputs(archive, specs, 0), _outputs(archive, specs, len(known)))
    report = comparison.report()
    written = Numerics(
        report=report,
        reference=known.info.runtime,
        data=known.info.data,
        package_sha256=deployment.package_sha256,
        fingerprint=result.fingerprint,
    )
    stage_json.save(written, numerics)
    return report


def _outputs(archive: zipfile.ZipFile, specs: tuple[TensorSpec, ...], number: int) -> dict:
    return {spec.name: read_array(archive, member("output", spec.name, number), spec.dtype) for spec in specs}
