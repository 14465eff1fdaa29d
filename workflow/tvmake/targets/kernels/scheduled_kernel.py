"""Replace a kernel by its scheduled version."""

import tvm

IS_SCHEDULED = "tirx.is_scheduled"
"""Attribute that keeps default schedules (dlight) away, as MetaScheduleApplyDatabase does."""


def with_scheduled_body(original: "tvm.tirx.PrimFunc", scheduled: "tvm.tirx.PrimFunc") -> "tvm.tirx.PrimFunc":
    """The scheduled body with the original's attributes."""
    for name in dict(scheduled.attrs):
        scheduled = scheduled.without_attr(name)
    return scheduled.with_attr({**dict(original.attrs), IS_SCHEDULED: True})


def is_scheduled(function: "tvm.tirx.PrimFunc") -> bool:
    """Whether a kernel already has a schedule."""
    return bool((function.attrs or {}).get(IS_SCHEDULED))
