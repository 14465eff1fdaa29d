from tvmake.report.page.charts.pareto import Point, front, pareto_svg


def names(points):
    return [point.label for point in points]


def test_the_front_is_what_no_other_variant_beats_in_both():
    points = [Point("slow", 9, 0.99), Point("fast", 1, 0.9), Point("beaten", 8, 0.95), Point("middle", 5, 0.97)]
    assert names(front(points, higher_is_better=True)) == ["fast", "middle", "slow"]


def test_of_variants_that_are_equal_in_one_value_only_the_better_is_on_the_front():
    points = [
        Point("as fast and worse", 1, 200),
        Point("as fast and smaller", 1, 100),
        Point("slower and as small", 2, 100),
    ]
    assert names(front(points, higher_is_better=False)) == ["as fast and smaller"]


def test_the_plot_marks_the_front_and_what_misses_its_goals():
    points = [Point("good", 1, 0.9), Point("bad", 2, 0.8, "fail")]
    svg = pareto_svg(points, "plot", str, str, higher_is_better=True)
    assert svg.count('class="mark  best"') == 1
    assert svg.count('class="mark fail"') == 1
