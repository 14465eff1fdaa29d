"""Candidates of kernels with dynamic dimensions are right at every size."""

import pytest

from tests.process.fixtures import shared_servers  # noqa: F401  # a fixture
from tests.tune.dynamic import dense, depthwise, points, rule_traces, token_dense
from tests.tune.replayed import record
from tvmake.records.workload import Workload
from tvmake.tune.verify.check import Checker
from tvmake.tune.verify.kernel_runner import LocalKernelRunner

pytestmark = pytest.mark.usefixtures("shared_servers")

ROWS = points(*({"n": rows} for rows in (1, 2, 9, 23)))
TOKENS = points(*({"batch": batch, "length": length} for batch, length in ((1, 1), (3, 5), (2, 16))))
IMAGES = points(*({"height": height, "width": width} for height, width in ((1, 1), (3, 10), (9, 17))))


@pytest.mark.parametrize(
    ("own", "sizes", "step"),
    [(dense(), ROWS, 12), (token_dense(), TOKENS, 16), (depthwise(), IMAGES, 16)],
    ids=["rows", "batch and length", "height and width"],
)
def test_every_tile_gives_right_values_at_1_and_where_tiles_are_incomplete(own: Workload, sizes, step: int):
    checker = Checker(own, LocalKernelRunner(), points=sizes)
    for trace in list(rule_traces(own))[::step]:
        verdict = checker.check(record(trace))
        assert verdict.right, verdict.reason
        assert verdict.reason.startswith("with ")


def test_a_verdict_names_the_size_at_which_a_candidate_is_wrong():
    own = dense()
    trace = next(rule_traces(own))
    checker = Checker(own, LocalKernelRunner(), points=ROWS[1:3])
    for expected in checker._expectations():
        if expected.sizes == {"n": 9}:
            expected.outputs[0][-1] += 1
    verdict = checker.check(record(trace))
    assert not verdict.right and verdict.reason.startswith("with n=9, off by")
