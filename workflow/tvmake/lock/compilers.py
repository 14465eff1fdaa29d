"""What links the packages of each target on this machine.

Only TVM knows the processor of one of its target tags. TVM is loaded in a process of its own then: whoever asks here forks
others later, which TVM's threads do not survive.
"""

import json
import subprocess
import sys
from collections.abc import Mapping

from tvmake.config.target import TargetConfig
from tvmake.errors import TvmakeError
from tvmake.target.toolchain import compiler_driver, driver_identity

TIMEOUT_S = 300


def compilers(targets: Mapping[str, TargetConfig]) -> dict[str, str]:
    """Each target's compiler as it names itself, or why there is none."""
    asked_here = {name: wanted for name, wanted in targets.items() if not _needs_tvm(wanted)}
    found = {name: _identity(name, wanted) for name, wanted in asked_here.items()}
    others = {name: wanted.model_dump(mode="json") for name, wanted in targets.items() if name not in asked_here}
    if others:
        found |= _asked_with_tvm(others)
    return {name: found[name] for name in targets}


def _needs_tvm(wanted: TargetConfig) -> bool:
    return wanted.tag is not None and wanted.entry is None and wanted.host is None


def _identity(name: str, wanted: TargetConfig) -> str:
    try:
        return driver_identity(compiler_driver(wanted, f"targets.{name}"))
    except TvmakeError as error:
        return f"none ({error.problem})"


def _asked_with_tvm(targets: dict[str, object]) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-m", __name__],
        input=json.dumps(targets),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        return dict.fromkeys(targets, "unknown (TVM cannot be loaded)")
    return json.loads(done.stdout.splitlines()[-1])


def _main() -> None:
    from tvmake.target.resolve import linker

    def identity(name: str, values: object) -> str:
        try:
            return driver_identity(linker(TargetConfig.model_validate(values), f"targets.{name}"))
        except TvmakeError as error:
            return f"none ({error.problem})"

    print(json.dumps({name: identity(name, values) for name, values in json.load(sys.stdin).items()}))


if __name__ == "__main__":
    _main()
