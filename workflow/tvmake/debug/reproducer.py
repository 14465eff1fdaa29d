"""What to send to whoever must mend it: the diagnosis, the values around it and the code, in one small directory."""

import zipfile
from pathlib import Path

from tvmake.artifact.tensor_file import write_array
from tvmake.debug.diagnosis import Diagnosis, Evidence
from tvmake.storage.files import atomic_directory, write_text

DIAGNOSIS, VALUES = "diagnosis.json", "values.npz"


def write_reproducer(diagnosis: Diagnosis, evidence: Evidence, directory: Path) -> None:
    """Write ``diagnosis.json``, ``values.npz`` (what goes into the operator, what should come out, what does) and its code.

    No weights but those that the operator takes are in it, and nothing of the rest of the network.

    Raises:
        MachineError: it cannot be written.
    """
    with atomic_directory(directory) as place:
        write_text(place / DIAGNOSIS, diagnosis.model_dump_json(indent=1) + "\n")
        for name, text in evidence.texts.items():
            write_text(place / name, text)
        with zipfile.ZipFile(place / VALUES, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, array in evidence.arrays.items():
                write_array(archive, f"{name}.npy", array)
