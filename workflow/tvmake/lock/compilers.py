"""The linkers of each target's packages on this machine.

Only TVM knows the processor of its target tags. TVM is then loaded in a separate process: the caller forks later, which
TVM's threads would not survive.
"""

import json
import subprocess
import sys
from collections.abc import Mapping

from tvmake.config.target import TargetConfig
from tvmake.errors import TvmakeError
from tvmake.process.python import python_command
from tvmake.targets.toolchain import compiler_driver, driver_identity

TIMEOUT_S = 300


def compilers(targets: Mapping[str, TargetConfig]) -> dict[str, str]:
    """Each target's compiler as it names itself, or why there is none."""
    without_tvm = {name: target for name, target in targets.items() if not _needs_tvm(target)}
    identities = {name: _identity(name, target) for name, target in without_tvm.items()}
    others = {name: target.model_dump(mode="json") for name, target in targets.items() if name not in without_tvm}
    if others:
        identities |= _identities_with_tvm(others)
    return {name: identities[name] for name in targets}


def _needs_tvm(target: TargetConfig) -> bool:
    return target.tag is not None and target.entry is None and target.host is None


def _identity(name: str, target: TargetConfig) -> str:
    try:
        return driver_identity(compiler_driver(target, f"targets.{name}"))
    except TvmakeError as error:
        return f"none ({error.problem})"


def _identities_with_tvm(targets: Mapping[str, object]) -> dict[str, str]:
    finished = subprocess.run(
        python_command("-m", "tvmake.process.tvm_import", __name__),
        input=json.dumps(targets),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if finished.returncode:
        return dict.fromkeys(targets, "unknown (TVM cannot be loaded)")
    return json.loads(finished.stdout.splitlines()[-1])


def _main() -> None:
    from tvmake.targets.resolve import linker

    def identity(name: str, values: object) -> str:
        try:
            return driver_identity(linker(TargetConfig.model_validate(values), f"targets.{name}"))
        except TvmakeError as error:
            return f"none ({error.problem})"

    print(json.dumps({name: identity(name, values) for name, values in json.load(sys.stdin).items()}))


if __name__ == "__main__":
    _main()
