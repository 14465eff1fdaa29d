"""Write a small directory for a bug report: the diagnosis, the values at the operator, and its code."""

import zipfile
from pathlib import Path

from tvmake.artifact.tensor_file import write_array
from tvmake.debug.diagnosis import Diagnosis, Evidence
from tvmake.storage.files import atomic_directory, write_text

DIAGNOSIS, VALUES = "diagnosis.json", "values.npz"


def write_reproducer(diagnosis: Diagnosis, evidence: Evidence, directory: Path) -> None:
    """Write ``diagnosis.json``, ``values.npz`` (the operator's inputs, expected and actual outputs) and its code.

    It contains no weights except the operator's, and nothing else of the network.

    Raises:
        MachineError: it cannot be written.
    """
    with atomic_directory(directory) as temporary:
        write_text(temporary / DIAGNOSIS, diagnosis.model_dump_json(indent=1) + "\n")
        for name, text in evidence.texts.items():
            write_text(temporary / name, text)
        with zipfile.ZipFile(temporary / VALUES, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, array in evidence.arrays.items():
                write_array(archive, f"{name}.npy", array)
