"""Check that the programs exist with which Snakemake deploys software for jobs (``--software-deployment-method``)."""

import argparse
import shutil

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
    return None
