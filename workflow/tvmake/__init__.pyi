from pathlib import Path

from tvmake.running.package import Package

__version__: str

def snakefile() -> Path: ...
def open(package: Path | str, threads: int | None = None) -> Package: ...
