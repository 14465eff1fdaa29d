"""A kernel with a schedule in place of the one without."""

import tvm

IS_SCHEDULED = "tirx.is_scheduled"
"""Keeps default schedules away (dlight), as MetaScheduleApplyDatabase does."""


def in_place_of(original: "tvm.tirx.PrimFunc", scheduled: "tvm.tirx.PrimFunc") -> "tvm.tirx.PrimFunc":
    """The scheduled body with the original's attributes."""
    for name in dict(scheduled.attrs):
        scheduled = scheduled.without_attr(name)
    return scheduled.with_attr({**dict(original.attrs), IS_SCHEDULED: True})


def is_scheduled(function: "tvm.tirx.PrimFunc") -> bool:
    """Whether a kernel has a schedule already."""
    return bool((function.attrs or {}).get(IS_SCHEDULED))
