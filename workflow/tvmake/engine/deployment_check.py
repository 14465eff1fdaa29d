"""Check that the programs exist with which Snakemake deploys software for jobs (``--software-deployment-method``)."""

import argparse
import shutil

from tvmake.engine.environments import IMAGE, image, is_installable
from tvmake.errors import MachineError

PROGRAMS = {"conda": ("conda",), "apptainer": ("apptainer", "singularity")}
"""Programs by deployment method; one of them is needed."""


def check_deployment(arguments: argparse.Namespace) -> MachineError | None:
    """Return why software cannot be deployed here; None if it can.

    Args:
        arguments: Snakemake's parsed arguments.
    """
    for method in sorted(str(method) for method in arguments.software_deployment_method):
        programs = PROGRAMS.get(method, ())
        if programs and not any(map(shutil.which, programs)):
            problem = f"no `{programs[0]}` on the path"
            remedy = f"install it, or run without --software-deployment-method {method}: jobs then use this Python's packages"
            return MachineError(f"--software-deployment-method {method}", problem, remedy)
        if method == "conda" and not is_installable():
            problem = "conda cannot install this tvmake: it is neither a release nor installed from a wheel file that still exists"
            remedy = (
                "build a wheel and install it: `pip wheel --no-deps -w dist .`, then `pip install dist/tvmake-*.whl`"
            )
            return MachineError(f"--software-deployment-method {method}", problem, remedy)
        if method == "apptainer" and not image():
            remedy = f"export {IMAGE}=REGISTRY/tvmake:VERSION, an image that you built (docs/guides/image.md)"
            return MachineError(f"--software-deployment-method {method}", f"{IMAGE} does not name an image", remedy)
    return None
