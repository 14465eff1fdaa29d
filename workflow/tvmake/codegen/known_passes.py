"""TVM's passes, and the pass settings that a config may change.

``tests/codegen/test_passes.py`` compares both with the pinned TVM.
"""

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

SWITCHES = frozenset(
    {
        "relax.lift_transform_params.consume_params", "relax.transform.apply_legalize_ops", "s_tir.instr_siblings",
        "s_tir.lwp_disable_func_prof", "s_tir.reset_start_id", "testing.immutable_module", "tirx.debug_keep_trivial_loop",
        "tirx.disable_assert", "tirx.disable_cse_tir", "tirx.disable_storage_rewrite", "tirx.disable_vectorize",
        "tirx.enable_buffer_level_predication", "tirx.enable_debug", "tirx.enable_fast_math",
        "tirx.instrument_bound_checkers", "tirx.instrument_lwp", "tirx.is_entry_func", "tirx.merge_static_smem",
        "tirx.noalias", "tirx.s_tir.ldg32", "tirx.use_async_copy",
    }
)  # fmt: skip
"""Boolean settings."""

NUMBERS = frozenset(
    {
        "relax.FuseOps.max_depth", "relax.fallback_device_type", "s_tir.lwp_max_depth", "s_tir.lwp_min_height",
        "tirx.vtcm_capacity",
    }
)  # fmt: skip
"""Integer settings."""

GROUPS: Mapping[str, frozenset[str]] = {
    "s_tir.HoistExpression": frozenset({"hoisted_conditionals", "hoisted_let_bindings"}),
    "s_tir.HoistIfThenElse": frozenset({"support_block_scope_hoisting"}),
    "s_tir.InjectDoubleBuffer": frozenset({"split_loop"}),
    "s_tir.LoopPartition": frozenset(
        {
            "partition_const_loop", "no_unroll_loop_with_extent_one",
            "unroll_loop_with_partition_hint_no_interval",
        }
    ),
    "tirx.RemoveNoOp": frozenset({"max_simplification_steps", "ignore_profiler_call"}),
    "tirx.StmtSimplify": frozenset(
        {
            "transitively_prove_inequalities", "convert_boolean_to_and_of_ors",
            "apply_constraints_to_boolean_branches",
        }
    ),
    "tirx.UnrollLoop": frozenset(
        {"auto_max_step", "auto_max_depth", "auto_max_extent", "explicit_unroll", "unroll_local_access"}
    ),
}  # fmt: skip
"""Settings with several fields."""

ELSEWHERE = {
    "relax.backend.use_cuda_graph": "set build.cuda_graph instead",
    "tirx.add_lower_pass": "it takes passes: name yours under transform.passes",
}
"""Settings of TVM that have another key in a config."""


@cache
def pass_names() -> frozenset[str]:
    """The passes that builds run, for any target."""
    return frozenset(resources.files("tvmake.codegen").joinpath("passes.txt").read_text().split())


def setting_problem(name: str, value: Any) -> str | None:
    """Why a pass setting cannot have a value; None if it can."""
    from difflib import get_close_matches

    if name in ELSEWHERE:
        return f"{name}: {ELSEWHERE[name]}"
    known = [*SWITCHES, *NUMBERS, *GROUPS]
    if name not in known:
        close = get_close_matches(name, known, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"TVM's are {', '.join(sorted(known))}"
        return f"TVM has no pass setting '{name}'; {hint}"
    if name in SWITCHES and not isinstance(value, bool):
        return f"{name}: expected true or false (got {value!r})"
    if name in NUMBERS and (isinstance(value, bool) or not isinstance(value, int)):
        return f"{name}: expected a whole number (got {value!r})"
    if name in GROUPS and not isinstance(value, dict):
        return f"{name}: expected a mapping with {', '.join(sorted(GROUPS[name]))} (got {value!r})"
    if name in GROUPS:
        wrong = [field for field in value if field not in GROUPS[name]]
        return f"{name}: has no '{wrong[0]}'; it has {', '.join(sorted(GROUPS[name]))}" if wrong else None
    return None


def pass_problem(name: str) -> str | None:
    """Why a pass cannot be disabled by this name; None if it can."""
    from difflib import get_close_matches

    if name in pass_names():
        return None
    close = get_close_matches(name, pass_names(), n=1)
    hint = f"did you mean '{close[0]}'?" if close else "keep what runs with build.dump: [passes]"
    return f"no build runs a pass '{name}'; {hint}"
