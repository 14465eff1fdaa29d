"""Distribution of trials: every kernel gets some, expensive ones more, shared ones once, and later rounds favour gains."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvmake.artifact.size_points import SizePoint, merge_points
from tvmake.artifact.tasks import Task, TaskList
from tvmake.config.requests.tuning import ModelBudget
from tvmake.errors import InputError
from tvmake.records.record import TuningContext
from tvmake.tune.budget import spread
from tvmake.tune.receipts import EXHAUSTED, Receipt

CONTEXT = TuningContext(generation="tvm-0", target="{}", device_class="cpu")


def key(number: int) -> str:
    return f"{number:064x}"


def tasks(*kernels: tuple[int, int, float], trivial: tuple[int, ...] = ()) -> TaskList:
    """Kernels as (number, calls, flops)."""
    return TaskList(
        target="{}",
        generation="tvm-0",
        tasks=[
            Task(
                workload=key(number),
                names=[f"kernel{number}"],
                calls=calls,
                flops=flops,
                trivial="it only moves data" if number in trivial else None,
            )
            for number, calls, flops in kernels
        ],
    )


def receipt(number: int, flops: float, trials: int, curve: list[tuple[int, float]], stopped: str = "budget") -> Receipt:
    return Receipt(
        workload=key(number),
        name=f"kernel{number}",
        place=CONTEXT,
        flops=flops,
        trials=trials,
        measured_now=trials,
        stopped=stopped,
        by_status={"ok": trials},
        curve=curve,
    )


def trials(spent: dict) -> dict[int, int]:
    return {int(workload, 16): kernel.trials for workload, kernel in spent.items()}


def test_trials_follow_the_work_in_a_kernel_above_the_floor():
    spent, _ = spread({"a/f": tasks((1, 1, 3e9), (2, 3, 1e9), (3, 1, 0.0))}, {"a/f": ModelBudget(trials=648)}, 1.0, {})
    assert trials(spent) == {1: 316, 2: 316, 3: 16}


def test_kernels_that_are_not_worth_tuning_get_nothing():
    spent, _ = spread({"a/f": tasks((1, 1, 1e9), (2, 1, 1e9), trivial=(2,))}, {"a/f": ModelBudget(trials=64)}, 1.0, {})
    assert trials(spent) == {1: 64}


def test_a_kernel_of_two_variants_is_measured_once_and_the_saving_is_reported():
    variants = {"a/f": tasks((1, 1, 1e9), (2, 1, 1e9)), "b/f": tasks((1, 1, 1e9))}
    spent, saved = spread(variants, dict.fromkeys(variants, ModelBudget(trials=64)), 1.0, {})
    assert trials(spent) == {1: 64, 2: 32}
    assert spent[key(1)].users == ["a/f", "b/f"]
    assert saved == 32


def test_a_later_round_adds_where_time_is_still_lost():
    fast = receipt(1, 1e9, 32, [(1, 10.0), (4, 0.1)])
    slow = receipt(2, 1e9, 32, [(1, 10.0), (30, 5.0)])
    listed = {"a/f": tasks((1, 1, 1e9), (2, 1, 1e9))}
    spent, _ = spread(listed, {"a/f": ModelBudget(trials=128)}, 1.0, {key(1): fast, key(2): slow})
    got = trials(spent)
    assert sum(got.values()) == 128
    assert got[1] < 40
    assert got[2] > 88


def test_kernels_without_further_candidates_leave_their_trials_to_the_others():
    kernels = tasks((1, 1, 3e9), (2, 1, 1e9), (3, 1, 1e9))
    receipts = {
        key(1): receipt(1, 3e9, 8, [(1, 3.0)], EXHAUSTED),
        key(2): receipt(2, 1e9, 32, [(1, 4.0)]),
        key(3): receipt(3, 1e9, 32, [(1, 1.0)]),
    }
    spent, _ = spread({"a/f": kernels}, {"a/f": ModelBudget(trials=300)}, 1.0, receipts)
    found = trials(spent)
    assert found[1] == 8 and found[2] > found[3] > 32
    assert sum(found.values()) == 300


def test_without_further_candidates_the_budget_is_not_spent():
    receipts = {key(1): receipt(1, 3e9, 8, [(1, 3.0)], EXHAUSTED)}
    spent, _ = spread({"a/f": tasks((1, 1, 3e9))}, {"a/f": ModelBudget(trials=300)}, 1.0, receipts)
    assert trials(spent) == {1: 8}


def test_a_fixed_number_per_kernel_is_just_that():
    spent, _ = spread(
        {"a/f": tasks((1, 1, 1e9), (2, 1, 1.0))}, {"a/f": ModelBudget(trials=0, trials_per_kernel=20)}, 0.5, {}
    )
    assert trials(spent) == {1: 10, 2: 10}


@given(
    kernels=st.lists(st.tuples(st.integers(1, 9), st.floats(0, 1e12)), min_size=1, max_size=12),
    budget=st.integers(1, 5000),
    floor=st.integers(1, 64),
    rounds=st.integers(1, 4),
)
def test_the_rounds_together_spend_the_budget_and_never_take_back(
    kernels: list[tuple[int, float]], budget: int, floor: int, rounds: int
):
    listed = {"a/f": tasks(*((number, *kernel) for number, kernel in enumerate(kernels, start=1)))}
    receipts: dict[str, Receipt] = {}
    before: dict[str, int] = {}
    for number in range(1, rounds + 1):
        spent, _ = spread(listed, {"a/f": ModelBudget(trials=budget, floor=floor)}, number / rounds, receipts)
        assert all(spent[workload].trials >= had for workload, had in before.items())
        before = {workload: kernel.trials for workload, kernel in spent.items()}
        flops = {task.workload: task.flops for task in listed["a/f"].tasks}
        receipts = {
            workload: receipt(int(workload, 16), flops[workload], had, [(1, 2.0), (had, 1.0)])
            for workload, had in before.items()
        }
    assert sum(before.values()) == max(budget, len(kernels))


def test_only_the_kernels_that_are_named_get_trials():
    variants = {"a/float32": tasks((1, 1, 10.0), (2, 1, 10.0), (13, 1, 10.0))}
    found, _ = spread(variants, {"a/float32": ModelBudget(trials=60, kernels=["kernel1*"])}, 1.0, {})
    assert {budget.name: budget.trials for budget in found.values()} == {"kernel1": 30, "kernel13": 30}


def test_an_unknown_or_trivial_kernel_is_refused_with_the_tunable_ones():
    variants = {"a/float32": tasks((1, 1, 10.0), (2, 1, 10.0), trivial=(2,))}
    for pattern in ("kernel2", "conv*"):
        with pytest.raises(InputError, match=r"it has: kernel1$"):
            spread(variants, {"a/float32": ModelBudget(trials=60, kernels=[pattern])}, 1.0, {})


def test_a_kernel_with_dynamic_dimensions_is_measured_at_the_sizes_of_all_its_variants():
    def sized(*sizes: int) -> TaskList:
        points = merge_points(SizePoint(sizes={"n": size}) for size in sizes)
        listed = tasks((1, 1, 1e9))
        return listed.model_copy(update={"tasks": [listed.tasks[0].model_copy(update={"points": points})]})

    budget = ModelBudget(trials=16)
    spent, _ = spread({"a/f": sized(1, 8), "b/f": sized(8, 64)}, {"a/f": budget, "b/f": budget}, 1.0, {})
    assert [(point.sizes["n"], point.weight) for point in spent[key(1)].points] == [(1, 0.25), (8, 0.5), (64, 0.25)]
