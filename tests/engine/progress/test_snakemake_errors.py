"""Snakemake's errors, translated."""

from pathlib import Path

import pytest

from tvmake.engine.progress.snakemake_errors import start_error, translate, usage_error

PROTECTED = """ProtectedOutputException in rule build in file "rules/build.smk", line 9:
Write-protected output files for rule build:
    output: results/digits/mod.so, results/digits/mod.json
    wildcards: model=digits
    affected files:
        results/digits/mod.so
"""

GONE = """MissingOutputException in rule import_model in file "/x/rules/import.smk", line 8:
Job 5  completed successfully, but some output files are missing. Missing files after 5 seconds. This might be due to \
filesystem latency. If that is the case, consider to increase the wait time with --latency-wait:
results/a b/model.json (missing locally, parent dir not present)
results/a b/model.params (missing locally, parent dir not present)
"""


@pytest.mark.parametrize(
    ("text", "where", "remedy"),
    [
        (GONE, "results/a b/model.json", "run again while nothing else changes these directories; on a shared disk wait longer: --latency-wait 20"),
        (PROTECTED, "results/digits/mod.so", "change its owner"),
        ("PermissionError: [Errno 13] Permission denied: 'logs/x'", "logs/x", "or choose another directory"),
        ("PermissionError: [Errno 13] Permission denied: '/nonexistent/.cache'", "/nonexistent/.cache", "or set XDG_CACHE_HOME"),
        ("OSError: [Errno 24] Too many open files: 'results/x'", "results/x", "ulimit -n 1024"),
        ("OSError: [Errno 27] File too large", "a file of Snakemake", "raise the limit (ulimit -f)"),
        ("MemoryError", "tvmake make", "ulimit -v"),
        ("ImportError: /x/y.so: failed to map segment from shared object", "tvmake make", "ulimit -v"),
    ],
)  # fmt: skip
def test_what_the_system_refuses_is_named_with_what_helps(
    tmp_path: Path, monkeypatch, text: str, where: str, remedy: str
):
    monkeypatch.chdir(tmp_path)
    error = translate(text)
    assert error is not None and error.where == where and remedy in (error.remedy or "")


def test_errors_of_the_start_are_one_line_with_what_helps():
    plugin = translate(
        "Error: Error loading Snakemake plugin s3x: The package snakemake-storage-plugin-s3x is not installed."
    )
    assert str(plugin) == "plugin 's3x': is not installed\n  pip install snakemake-storage-plugin-s3x"
    unknown = start_error("Error: cores have to be specified\n  for local execution")
    assert str(unknown).startswith("snakemake: cores have to be specified for local execution\n")
    profile = usage_error(
        "snakemake: error: Couldn't parse config file: while parsing a flow node\nexpected the node content\n"
        '  in "mine/config.yaml", line 2, column 1'
    )
    assert str(profile) == "mine/config.yaml:2: is not YAML\n  correct the profile"
