"""The workflow through snakemake itself."""

from tests.workflow.project import ROOT


def snakemake(*arguments: str) -> list[str]:
    """The command that runs the workflow on the project in the working directory."""
    # --configfile takes every following word.
    return ["snakemake", *arguments, "--snakefile", str(ROOT / "Snakefile"), "--configfile", "tvmake.yaml"]
