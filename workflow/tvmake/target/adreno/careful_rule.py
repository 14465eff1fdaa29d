"""A schedule rule that gives up instead of ending the build: the next rule then has its turn."""

from typing import Any

from tvmake.quick_tvm import tvm

# After quick_tvm, which decides how TVM is loaded.
from tvm.s_tir.dlight.base import ScheduleRule  # isort: skip


class Careful(ScheduleRule):
    """dlight's rules for Adreno take the kernels they were written for as given, and fail on others in many ways."""

    def __init__(self, rule: Any):
        self.rule = rule

    def apply(self, func: Any, target: "tvm.target.Target", tunable: bool) -> Any:
        """The rule's schedule; None where it has none, or fails."""
        try:
            return self.rule.apply(func, target, tunable)
        except (
            tvm.error.InternalError, tvm.s_tir.ScheduleError, AssertionError, AttributeError, IndexError, KeyError,
            RuntimeError, TypeError, ValueError,
        ):  # fmt: skip
            return None
