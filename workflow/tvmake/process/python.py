"""Python as a child process: it imports what is installed, and nothing that only lies in the working directory.

With ``-m`` and ``-c``, Python looks for every module in the working directory first: a ``json.py`` beside a config would be run
by whatever imports json. All that tvmake starts leaves that directory out. A user's own modules, which a config names, come
from :mod:`tvmake.process.user_code`.
"""

import os
import pwd
import sys

SAFE_PATH = "PYTHONSAFEPATH"
"""Python's own switch to leave the working directory out."""


def python_command(*arguments: str) -> list[str]:
    """The command line of this interpreter with ``arguments``, such as ``"-m", "package.module"``."""
    return [sys.executable, "-P", *arguments]


NO_TELEMETRY = {"ORT_DISABLE_TELEMETRY": "1"}
"""Libraries that report on their use unless told not to: ONNX Runtime, which looks up a host and writes into the home directory."""


USER_NAMES = ("LOGNAME", "USER", "LNAME", "USERNAME")
"""Variables with the user's name, as Python's ``getpass`` reads them."""


def protect_children() -> None:
    """Set what libraries and the programs that they start go by, in this process and all that it starts.

    Python programs (TVM's workers, Snakemake's jobs) leave the working directory out, too; nothing reports on its use. A user
    without a name, as in a container that was started with a number (``--user``), has the number for one, and the
    root for a home: Snakemake and PyTorch ask for both.
    """
    os.environ.update({SAFE_PATH: "1", **NO_TELEMETRY})
    if not any(os.environ.get(name) for name in USER_NAMES):
        try:
            pwd.getpwuid(os.getuid())
        except KeyError:
            os.environ["USER"] = str(os.getuid())
            os.environ.setdefault("HOME", "/")
