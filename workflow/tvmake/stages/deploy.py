"""Deploy: bring a package to its device, by digest."""

from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from tvmake.artifact import stage_json
from tvmake.config.requests.running import DeployRequest
from tvmake.device import store
from tvmake.device.connect import connect
from tvmake.device.interface import Deployment, Fingerprint


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
        DeviceError: the device cannot be reached.
    """
    device = connect(request.device_name, request.device)
    deployment = device.push(package)
    kind = store.device_kind(deployment)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    stage_json.save(Receipt(deployment=deployment, fingerprint=device.fingerprint(kind), deployed_at=now), receipt)
