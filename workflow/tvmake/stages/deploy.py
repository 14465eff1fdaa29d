"""Deploy: bring a package to its device, by digest."""

from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from tvmake.artifact import stage_json
from tvmake.config.requests.running import DeployRequest
from tvmake.device import store
from tvmake.device.connect import connect
from tvmake.device.interface import Deployment, Fingerprint
from tvmake.device.limits import check_package


class Receipt(BaseModel):
    """Proof that a device holds a package."""

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
    device = connect(request.device_name, request.device)
    deployment = device.push(package)
    told = device.fingerprint(store.device_kind(deployment))
    if manifest := store.manifest_of(deployment):
        check_package(told, manifest)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    stage_json.save(Receipt(deployment=deployment, fingerprint=told, deployed_at=now), receipt)
