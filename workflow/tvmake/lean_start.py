"""What Snakemake loads before it looks at a workflow, and need not.

The workflow's own files are read without the library that Snakemake opens addresses on the web with, which loads clients of web
services to say that a path is a path; the maker of Snakemake's HTML report is loaded when such a report is asked for. Each is 5
to 8 % of what a small plan takes. It concerns ``tvmake make`` only.
"""

import os
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Any, TypeVar
from urllib.parse import unquote

import snakemake.api  # noqa: F401  # its modules import each other, which works from this one on
from snakemake.sourcecache import LocalSourceFile, SourceCache
from snakemake_interface_common.plugin_registry import PluginRegistryBase
from snakemake_interface_report_plugins.registry import ReportPluginRegistry

Parsed = TypeVar("Parsed")

HTML = "html"
"""The name of the report that comes with Snakemake."""

_place_in_cache, _open = LocalSourceFile.get_cache_path, SourceCache._open
_get_plugin = ReportPluginRegistry.get_plugin


def start_leanly() -> None:
    """Have Snakemake start this way, in this process."""
    LocalSourceFile.get_cache_path = _place_of_a_path
    SourceCache._open = _open_path
    ReportPluginRegistry.collect_plugins = PluginRegistryBase.collect_plugins  # those that are installed besides
    ReportPluginRegistry.get_plugin = _plugin_when_asked_for


def parsed_leanly(parse: Callable[[Sequence[str]], Parsed], arguments: Sequence[str]) -> Parsed:
    """Parse Snakemake's arguments, with the report's own options only where there may be any.

    Raises:
        SystemExit: as ``parse`` does where all options are known.
    """
    if not any(argument.startswith("--report") for argument in arguments):
        try:
            return parse(arguments)
        except SystemExit as exit_:
            if not exit_.code:
                raise
    _load_html_report()  # a profile may name an option of its
    return parse(arguments)


def _load_html_report() -> None:
    ReportPluginRegistry().register_plugin(HTML, import_module("snakemake.report.html_reporter"))


def _plugin_when_asked_for(self: Any, name: str) -> Any:
    if name == HTML:
        _load_html_report()
    return _get_plugin(self, name)


def _place_of_a_path(self: Any) -> str:
    path = self.get_path_or_uri(secret_free=True)
    if not path.startswith("/"):
        return _place_in_cache(self)
    return os.path.join("file", unquote(path.lstrip("/")))  # noqa: PTH118  # as Snakemake does for addresses


def _open_path(self: Any, source_file: Any, mode: str, encoding: str | None = None) -> IO[Any]:
    if type(source_file) is LocalSourceFile:
        try:
            return Path(source_file.get_path_or_uri(secret_free=False)).open(
                mode, encoding=None if "b" in mode else encoding
            )
        except OSError:
            pass  # Snakemake meets it again, and says so in its own words
    return _open(self, source_file, mode, encoding)
