"""Python as a child process, without modules of the working directory.

With ``-m`` and ``-c``, Python searches the working directory first: a ``json.py`` beside a config would replace the json module
of every library. Child processes of tvmake exclude that directory. Modules of users, which a config names, are imported by
:mod:`tvmake.process.user_code`.
"""

import os
import pwd
import sys

SAFE_PATH = "PYTHONSAFEPATH"
"""Python's own switch to exclude the working directory."""


def python_command(*arguments: str) -> list[str]:
    """The command line of this interpreter with ``arguments``, such as ``"-m", "package.module"``."""
    return [sys.executable, "-P", *arguments]


NO_TELEMETRY = {"ORT_DISABLE_TELEMETRY": "1"}
"""Switches for libraries that report their use: ONNX Runtime looks up a host and writes into the home directory."""


USER_NAMES = ("LOGNAME", "USER", "LNAME", "USERNAME")
"""Variables with the user's name, as Python's ``getpass`` reads them."""


def protect_children() -> None:
    """Set environment variables of libraries and child processes.

    Python programs (TVM's workers, Snakemake's jobs) exclude the working directory, and libraries do not report their use. A
    user without a name, as in a container with ``--user NUMBER``, gets the number as name and the root as home: Snakemake and
    PyTorch read both.
    """
    os.environ.update({SAFE_PATH: "1", **NO_TELEMETRY})
    if not any(os.environ.get(name) for name in USER_NAMES):
        try:
            pwd.getpwuid(os.getuid())
        except KeyError:
            os.environ["USER"] = str(os.getuid())
            os.environ.setdefault("HOME", "/")
