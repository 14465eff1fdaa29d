"""Deploy: copy a package to its device, identified by its digest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from tvmake.artifact import paths
from tvmake.artifact.fingerprint import Fingerprint
from tvmake.config.requests.running import DeployRequest
from tvmake.device.interface import Deployment
from tvmake.stages.descriptor import Input, Log, Output, Stage

if TYPE_CHECKING:
    from tvmake.stages.context import JobContext


class Receipt(BaseModel):
    """Proof that a device has a package."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    deployment: Deployment
    fingerprint: Fingerprint
    deployed_at: str
    """UTC, ISO 8601."""


def deploy(package: Path, request: DeployRequest, receipt: Path) -> None:
    """Push a package and write the receipt.

    Raises:
        InputError: the package is damaged.
        DeviceError: the device cannot be reached, or cannot run the package.
    """
    from datetime import UTC, datetime

    from tvmake.artifact import stage_json
    from tvmake.device import store
    from tvmake.device.connect import connect
    from tvmake.device.limits import check_package

    device = connect(request.device_name, request.device)
    deployment = device.push(package)
    fingerprint = device.fingerprint(store.device_kind(deployment))
    if manifest := store.manifest_of(deployment):
        check_package(fingerprint, manifest)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    stage_json.save(Receipt(deployment=deployment, fingerprint=fingerprint, deployed_at=now), receipt)


def deploy_request(job: JobContext) -> DeployRequest:
    """The device of the package."""
    return DeployRequest(**job.device_fields)


STAGE = Stage(
    name="deploy",
    summary="Copy a package to its device.",
    function=deploy,
    inputs=(Input("package.tar", "package"),),
    outputs=(Output("receipt.json", paths.VARIANT, "receipt", "Receipt to write (JSON)."),),
    logs=(Log("{model}/{precision}/{target}/deploy.log"),),
    request_model=DeployRequest,
    request=deploy_request,
    exists=lambda job: job.device_name is not None,
    is_goal=True,
    memory_mb=800,
    is_on_device=True,
)
