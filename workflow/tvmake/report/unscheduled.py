"""Describe a package's kernels without a schedule: the reasons, and the remedies."""

from collections.abc import Iterator, Sequence

from tvmake.artifact.manifest import Unscheduled, UnscheduledKernel

WARNING_SHARE = 0.5
"""Of a package's time: if more of it is in kernels without a schedule, that is a warning."""

LEAST_SHARE = 0.01
"""Of a package's time: if less of it is, that is not worth a line."""

SHOWN = 3
"""Kernels that a line names for each reason."""

LONGEST_NAME = 60
"""Characters of a kernel's name that a line has; mod.json has all of it."""

TUNE = "`tuning: {trials: TRIALS}`"

HEADLINE = "of the estimated time is in kernels without a schedule"


def fix_dims(names: Sequence[str]) -> str:
    """The key of a model that fixes dynamic dimensions, for messages."""
    return f"`dims: {{{', '.join(f'{name}: SIZE' for name in names)}}}`"


def is_alarming(time_share: float | None) -> bool:
    """Whether a share without a schedule is so large that it is worth a warning."""
    return time_share is not None and time_share > WARNING_SHARE


def unscheduled_headline(part: Unscheduled) -> str:
    """``97 % of the estimated time is in kernels without a schedule``."""
    return f"{_percent(part.time_share)} {HEADLINE}"


def unscheduled_lines(part: Unscheduled | None) -> Iterator[str]:
    """The description of a package's kernels without a schedule, with keys of a config as remedies; empty if they have no weight."""
    if part is None:
        return
    if part.time_share >= LEAST_SHARE:
        by_reason: dict[str, list[UnscheduledKernel]] = {}
        for kernel in part.kernels:
            by_reason.setdefault(kernel.reason, []).append(kernel)
        listed = "".join(f"; {_list_kernels(kernels)}: {reason}" for reason, kernels in by_reason.items())
        helps = help_text(part.kernels)
        yield f"{unscheduled_headline(part)}{listed}{f'; what would help: {helps}' if helps else ''}"
    if part.layout_failure:
        yield f"convolutions keep the layout NCHW, which suits the target less: TVM cannot convert the network ({part.layout_failure})"


def help_text(kernels: Sequence[UnscheduledKernel]) -> str:
    """The config's key that gives kernels a schedule, as typed; empty if none is known."""
    dims = list(dict.fromkeys(name for kernel in kernels for name in kernel.dims))
    is_tunable = any(kernel.is_tunable for kernel in kernels)
    return ", ".join([*([fix_dims(dims)] if dims else []), *([TUNE] if is_tunable else [])])


def _list_kernels(kernels: Sequence[UnscheduledKernel]) -> str:
    named = ", ".join(f"{_short(kernel.name)} ({_percent(kernel.time_share)})" for kernel in kernels[:SHOWN])
    return f"{named} and {len(kernels) - SHOWN} more" if len(kernels) > SHOWN else named


def _percent(time_share: float) -> str:
    return f"{time_share * 100:.0f} %"


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
