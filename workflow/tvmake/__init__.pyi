from pathlib import Path

from tvmake.api.model import Model as Model
from tvmake.api.model import load as load
from tvmake.api.results import Results as Results
from tvmake.running.generation import generate as generate
from tvmake.running.package import Package as Package

__version__: str

def snakefile() -> Path: ...
def open(package: Path | str, threads: int | None = None) -> Package: ...
