"""Output of ``tvmake run --self-test``."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from tvmake.artifact.manifest import Manifest, SelfTest
    from tvmake.device.interface import Device
    from tvmake.running.self_test import Checked


def self_tests(package: Path, function: str | None) -> "dict[str, tuple[Path, Manifest]]":
    """The networks of a package that a self-test runs, by function: the chosen one, or all with a self-test.

    Raises:
        InputError: the package is damaged, or has no self-test.
    """
    from tvmake.device.function_packages import choose_function, put_functions
    from tvmake.errors import InputError
    from tvmake.running.self_test import self_test_of

    if function is not None:
        return {function: choose_function(package, function)}
    networks = put_functions(package)
    refusals = {}
    for name, (file, manifest) in list(networks.items()):
        try:
            self_test_of(manifest, str(package) if file == package else f"{package}: {name}")
        except InputError as error:
            refusals[name] = error
            del networks[name]
    if not networks:
        raise next(iter(refusals.values()))
    for refusal in refusals.values():
        typer.echo(f"note: {refusal.where} {refusal.problem}", err=True)
    return networks


def print_self_test(networks: "dict[str, tuple[Path, Manifest]]", device: "Device", as_json: bool) -> None:
    """Run the self-tests of a package's networks, and print a line for each output of each sample.

    Args:
        networks: by function; the name is empty for a package with one network.

    Raises:
        GoalError: an output differs from the original framework's.
    """
    from tvmake.errors import GoalError
    from tvmake.process.output import counted, printable
    from tvmake.running.self_test import run_self_test, self_test_of

    values, failures = {}, []
    for name, (package, manifest) in networks.items():
        self_test = self_test_of(manifest, str(package))
        checked = run_self_test(package, manifest, device)
        wrong = [entry for entry in checked if entry.missed]
        values[name] = _values(self_test, device, checked, not wrong)
        outputs = f"{len(checked)} outputs of {counted(self_test.samples, 'sample')}"
        width = max(len(entry.output) for entry in checked)
        lines = [*([f"function {name}"] if name else []), *(_line(entry, self_test, width) for entry in checked)]
        if wrong:
            failures.append((name or str(package), f"{len(wrong)} of {outputs} are wrong"))
        else:
            lines.append(f"self-test passed on '{device.name}': {outputs}, against {self_test.reference}")
        for line in () if as_json else lines:
            typer.echo(printable(line))
    if as_json:
        everything = {"passed": not failures, "device": device.name, "functions": values}
        typer.echo(json.dumps(values.get("", everything), indent=2))
    if failures:
        where, problem = failures[0]
        remedy = "the device, its driver or the package's code is faulty: try another device, and `tvmake debug`"
        raise GoalError(where, f"self-test failed on '{device.name}': {problem}", remedy)


def _line(entry: "Checked", self_test: "SelfTest", width: int) -> str:
    figures = entry.figures
    if figures is None:
        text = "cannot be compared"
    elif figures.nonfinite_mismatches:  # the other figures exclude these
        text = f"elements that are NaN or infinite on one side only: {figures.nonfinite_mismatches}"
    elif entry.is_discrete:
        text = f"equal {figures.equal:.2%}{_goal_text(self_test, 'equal', '{:.2%}')}"
    else:
        text = f"SQNR {figures.sqnr_db:.1f} dB{_goal_text(self_test, 'sqnr_db', '{:g}')}, largest error {figures.max_abs:.3g}"
        text += f", {figures.max_abs_rms:.2g} of the RMS{_goal_text(self_test, 'max_abs_rms', '{:g}')}"
    return f"sample {entry.sample}  {entry.output:<{width}}  {text}  {_verdict(entry, self_test)}"


def _verdict(entry: "Checked", self_test: "SelfTest") -> str:
    if not entry.missed:
        judging = {goal for goal in self_test.goals if (goal == "equal") == entry.is_discrete}
        return "ok" if judging else "no goal"
    if entry.figures is None:
        return f"WRONG: {'; '.join(missed.reason for missed in entry.missed)}"
    return f"WRONG: misses {', '.join(missed.goal for missed in entry.missed)}"


def _goal_text(self_test: "SelfTest", goal: str, form: str) -> str:
    return f" (goal {form.format(self_test.goals[goal])})" if goal in self_test.goals else ""


def _values(self_test: "SelfTest", device: "Device", checked: "list[Checked]", passed: bool) -> dict[str, object]:
    return {
        "passed": passed,
        "device": device.name,
        "self_test": self_test.model_dump(mode="json"),
        "outputs": [
            {
                "sample": entry.sample,
                "output": entry.output,
                "passed": not entry.missed,
                "missed": [missed.model_dump(mode="json") for missed in entry.missed],
                "figures": entry.figures.model_dump(mode="json") if entry.figures else None,
            }
            for entry in checked
        ],
    }
