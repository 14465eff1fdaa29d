"""Start the baseline's process beside the measurement of a package, and read its result."""

import json
import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tvmake.benchmark.baseline.result import Baseline, NoBaseline
from tvmake.config.requests.running import BenchmarkRequest
from tvmake.process.parent_death import bound_environment
from tvmake.process.python import python_command
from tvmake.process.supervised import ChildProcess, exit_description
from tvmake.storage.temporary import locked_directory

LONGEST_PARENT = 60
"""Bytes of the directory for temporary files; a Unix socket's path has at most 103 on all systems, and 40 are added here."""

END_S = 20.0
"""How long the process may take to write its result and end."""


class BaselineProcess:
    """The process that measures the baseline.

    Attributes:
        address: of the socket that it listens on.
    """

    def __init__(self, address: str, result: Path, child: ChildProcess):
        self.address = address
        self._result = result
        self._child = child

    def result(self) -> Baseline | NoBaseline:
        """Its result, after the package's measurement."""
        code = self._child.end(END_S)
        if not self._result.is_file():
            how = "does not end" if code == 0 else exit_description(code)
            return NoBaseline(
                problem=f"the framework's process {how}",
                remedy="see its output, before this line or in the job's log",
            )
        result = json.loads(self._result.read_bytes())
        return NoBaseline(**result) if "problem" in result else Baseline(**result)


@contextmanager
def baseline_process(
    request: BenchmarkRequest, reference: Path, environment: dict[str, str]
) -> Iterator[BaselineProcess]:
    """A process that measures ``request.baseline`` alternately with a package; it is ended with the block.

    Args:
        reference: the file with the inputs.
        environment: additional environment variables.
    """
    temporary = tempfile.gettempdir()
    parent = Path(temporary if len(os.fsencode(temporary)) <= LONGEST_PARENT else "/tmp")
    with locked_directory(parent, "tvmake-baseline-") as directory, socket.socket(socket.AF_UNIX) as listening:
        address, request_file, result = directory / "turns", directory / "request.json", directory / "result.json"
        request_file.write_text(request.model_dump_json())
        listening.bind(str(address))
        listening.listen(1)
        files = (str(request_file), str(reference), str(result))
        with ChildProcess(
            python_command("-m", "tvmake.benchmark.baseline.worker", *files),
            bound_environment({**os.environ, **environment}),
            stdin=listening.fileno(),
            stdout=sys.stderr,
        ) as child:
            # Only the child has the socket: after its end, connections of the package's process are refused at once.
            listening.close()
            yield BaselineProcess(str(address), result, child)
