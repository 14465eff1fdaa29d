"""Slowdowns are found, and equal things are not called slower, whatever the noise. Seeded: the same on every machine."""

import pytest
from benchmarks.diff_sensitivity import MADE, made_pairs, shares


@pytest.mark.parametrize(
    "noise", [noise for noise in MADE if noise.__name__ != "bimodal"], ids=lambda noise: noise.__name__
)
def test_of_20_samples_each_20_per_cent_are_found_and_few_alarms_are_false(noise):
    _, alarms, found = shares(made_pairs(noise, 20, 60))
    assert alarms <= 1 / 60
    assert found >= 59 / 60


def test_two_frequencies_take_more_samples_to_tell_apart():
    _, alarms, found = shares(made_pairs(next(noise for noise in MADE if noise.__name__ == "bimodal"), 100, 60))
    assert (alarms, found) == (0, 1)
