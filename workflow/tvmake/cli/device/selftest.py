"""The work and output of ``tvmake device selftest``."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from tvmake.config.device import DeviceConfig
    from tvmake.config.target import TargetConfig
    from tvmake.conformance.report import Report

FAULTS = ("target", "precision", "name", "verdict", "problem")
"""Columns, by the keys of rows."""


def run_selftest(
    name: str,
    config: "DeviceConfig",
    targets: Sequence[str],
    precisions: Sequence[str],
    output: Path | None,
    as_json: bool,
) -> None:
    """Test a device, print the results, and write the report.

    Raises:
        GoalError: a result is wrong or missing.
    """
    from tvmake.config.device import LocalDeviceConfig
    from tvmake.conformance.kit import PRECISIONS, Kit, default_targets
    from tvmake.conformance.report import is_report
    from tvmake.device.connect import connect
    from tvmake.errors import GoalError
    from tvmake.storage.destinations import check_destination
    from tvmake.storage.files import write_text

    if output is not None:
        check_destination(output, "report of a self-test", is_report)
    device = connect(name, config)
    chosen = _targets(targets) if targets else default_targets(device, isinstance(config, LocalDeviceConfig))
    kit = Kit(
        device,
        name,
        config.via,
        chosen,
        precisions or PRECISIONS,
        progress=lambda line: typer.echo(f"{line} …", err=True),
    )
    with device.exclusive():
        report = kit.report()
    text = json.dumps({**report.model_dump(mode="json"), "passed": not report.faults}, indent=2)
    if output is not None:
        write_text(output, text + "\n")
    if as_json:
        typer.echo(text)
    else:
        _print(report)
        if output is not None:
            typer.echo(f"wrote {output}")
    if report.faults:
        problem = f"{len(report.faults)} of {len(report.answers)} results are wrong or missing"
        remedy = "the device, its driver or the compiler is faulty: report it with the file that -o FILE writes"
        raise GoalError(f"device '{name}'", problem, remedy)


def _targets(texts: Sequence[str]) -> "dict[str, TargetConfig]":
    from pydantic import ValidationError

    from tvmake.config.target import TargetConfig
    from tvmake.errors import UsageError

    parsed = {}
    for text in texts:
        try:
            parsed[text] = TargetConfig.model_validate(text)
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
            first, _, remedy = problem.partition("; ")
            raise UsageError(f"--target {text}", first, remedy or "`tvmake targets` lists all targets") from None
    return parsed


def _print(report: "Report") -> None:
    from tvmake.cli.device import tables as device_tables

    for kind, fingerprint in report.fingerprints.items():
        typer.echo(f"{kind}: {fingerprint.details.get('gpu', fingerprint.soc)}")
        for name, value in fingerprint.details.items():
            typer.echo(f"  {name}: {value}")
    typer.echo()
    groups: dict[tuple[str, str, str], list[str]] = {}
    for answer in report.answers:
        groups.setdefault((answer.target, answer.precision, answer.set), []).append(answer.verdict)
    rows = [
        {
            "target": target,
            "precision": precision,
            "questions": questions,
            **{verdict: verdicts.count(verdict) or "" for verdict in ("ok", "wrong", "failed", "not there")},
            "least SQNR": _lowest_sqnr(report, target, precision, questions),
        }
        for (target, precision, questions), verdicts in groups.items()
    ]
    device_tables.show(rows, False, tuple(rows[0]) if rows else (), "no tests ran")
    if report.faults:
        typer.echo()
        device_tables.show([fault.model_dump() for fault in report.faults], False, FAULTS)


def _lowest_sqnr(report: "Report", target: str, precision: str, questions: str) -> str:
    figures = [
        answer.sqnr_db
        for answer in report.answers
        if (answer.target, answer.precision, answer.set) == (target, precision, questions)
        and answer.sqnr_db is not None
    ]
    return f"{min(figures):.1f} dB" if figures else ""
