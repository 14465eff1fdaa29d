"""Python as a child process: it imports what is installed, and nothing that only lies in the working directory.

With ``-m`` and ``-c``, Python looks for every module in the working directory first: a ``json.py`` beside a config would be run
by whatever imports json. All that tvmake starts leaves that directory out. A user's own modules, which a config names, come
from :mod:`tvmake.process.user_code`.
"""

import os
import sys

SAFE_PATH = "PYTHONSAFEPATH"
"""Python's own switch to leave the working directory out."""


def python_command(*arguments: str) -> list[str]:
    """The command line of this interpreter with ``arguments``, such as ``"-m", "package.module"``."""
    return [sys.executable, "-P", *arguments]


NO_TELEMETRY = {"ORT_DISABLE_TELEMETRY": "1"}
"""Libraries that report on their use unless told not to: ONNX Runtime, which looks up a host and writes into the home directory."""


def protect_children() -> None:
    """Set what libraries and the programs that they start go by, in this process and all that it starts.

    Python programs (TVM's workers, Snakemake's jobs) leave the working directory out, too; nothing reports on its use.
    """
    os.environ.update({SAFE_PATH: "1", **NO_TELEMETRY})
