"""What the summary says of the cache."""

import json

from tvmake.artifact import stage_json
from tvmake.cache.line import CacheLine, write_line
from tvmake.report.cache_use import cache_text, cache_use
from tvmake.report.rows import Summary
from tvmake.report.terminal import print_summary

KEY = "0" * 64


def say(path, outcome, **more):
    path.parent.mkdir(parents=True, exist_ok=True)
    line = CacheLine(cache=outcome, stage=path.stem, key=KEY, **more)
    path.write_text(f"something\n{write_line(line)}\n" + json.dumps({"stage": path.stem, "exit": 0}) + "\n")


def logs_of(run, tmp_path):
    run.add()
    run.add(target="phone", device=None)
    logs = tmp_path / "logs"
    say(logs / "digits/import.log", "hit", bytes=1_000, saved_s=2.5)
    say(logs / "digits/float32/transform.log", "miss", stored=True)
    say(logs / "digits/float32/cpu/build.log", "hit", bytes=500, saved_s=4.0)
    say(logs / "digits/float32/cpu/export.log", "refused")
    say(logs / "digits/float32/phone/build.log", "unavailable")
    say(logs / "digits/float32/phone/export.log", "not cacheable")
    # Not of this summary: a variant of another config, and a stage that these have no more.
    say(logs / "digits/float16/cpu/build.log", "miss")
    say(logs / "digits/float32/cpu/extract.log", "miss")
    return logs


def test_each_result_counts_once_and_those_that_cannot_be_cached_do_not(run, tmp_path):
    logs = logs_of(run, tmp_path)
    use = cache_use(run.request.variants, logs)
    assert use is not None
    assert (use.hits, use.misses, use.refused, use.unavailable, use.stored) == (2, 3, 1, 1, 1)
    assert (use.bytes, use.saved_s, use.hit_rate) == (1_500, 6.5, 0.4)
    assert cache_text(use) == (
        "2 of 5 results taken from it (40 %), 6 s of work saved, 1 refused, 1 could not be asked for"
    )


def test_without_logs_or_without_a_cache_the_summary_says_nothing_of_it(run, tmp_path, capsys):
    run.add()
    assert cache_use(run.request.variants, tmp_path / "logs") is None
    log = tmp_path / "logs/digits/import.log"
    log.parent.mkdir(parents=True)
    log.write_text('{"cache": broken\n{"cache": "hit", "no_such": 1}\n{"stage": "import", "exit": 0}\n')
    assert cache_use(run.request.variants, tmp_path / "logs") is None


def test_the_table_the_file_and_the_page_say_it_in_one_line(run, tmp_path, monkeypatch, capsys):
    logs_of(run, tmp_path)
    monkeypatch.chdir(tmp_path)
    run.report()
    summary = stage_json.load(Summary, run.file("summary.json"))
    assert summary.cache is not None and summary.cache.hits == 2
    print_summary(summary)
    assert "cache: 2 of 5 results taken from it (40 %)" in capsys.readouterr().out.splitlines()[-1]
    assert "Cache: 2 of 5 results taken from it (40 %)" in run.file("index.html").read_text()
    # One of before there was a cache.
    old = json.loads(run.file("summary.json").read_text())
    del old["cache"]
    assert Summary.model_validate_json(json.dumps(old)).cache is None
