"""The context of TVM's passes, and records of their results and times."""

import difflib
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tvm

from tvmake.codegen.options import PASS_TIME, PassOptions
from tvmake.errors import InputError

NO_SETTINGS: Mapping[str, Any] = {}

WHOLE = ("sequential",)
"""Names of passes that only run other passes."""


def pass_context(
    options: PassOptions, more: Mapping[str, Any] = NO_SETTINGS, instruments: Sequence[Any] = ()
) -> "tvm.transform.PassContext":
    """The pass context for a build's options."""
    return tvm.transform.PassContext(
        opt_level=options.opt_level,
        disabled_pass=list(options.disabled_passes),
        instruments=list(instruments),
        config={**options.pass_config, **more},
    )


def check_settings(options: PassOptions) -> None:
    """Refuse pass settings that TVM does not have, or with values of another type.

    Raises:
        InputError: TVM refuses one.
    """
    try:
        pass_context(options)
    except (AttributeError, TypeError) as error:
        problem, _, candidates = str(error).partition(" candidates are: ")
        (name,) = re.findall(r"option '(.*)'", problem) or ("",)
        close = difflib.get_close_matches(name, re.findall(r"[\w.]+", candidates), n=1)
        remedy = f"did you mean '{close[0]}'?" if close else "`tvm.transform.PassContext.list_configs()` lists them"
        raise InputError("build.pass_config", problem, remedy) from error


@tvm.ir.instrument.pass_instrument
class PassRecord:
    """Records the names of all passes, and the module as text after each pass that changed it."""

    def __init__(self, keeps_texts: bool = True):
        self.names: list[str] = []
        self.texts: dict[str, str] = {}
        """Texts by file name, in order."""
        self._keeps_texts = keeps_texts
        self._last = ""

    def begin(self, module: "tvm.IRModule") -> None:
        """Reset the record; ``module`` is the input of the passes."""
        self.names, self.texts, self._last = [], {}, ""
        self._keep("transformed", module)

    def run_after_pass(self, module: Any, info: Any) -> None:
        name = str(info.name)
        if name not in WHOLE:
            self.names.append(name)
            self._keep(name, module)

    def _keep(self, name: str, module: Any) -> None:
        if not self._keeps_texts:
            return
        text = module.script(show_meta=False)
        if text != self._last:
            self.texts[f"passes/{len(self.texts):03}-{name}.py"] = text
            self._last = text


@tvm.ir.instrument.pass_instrument
class PassTimes:
    """Measures the time of each pass, without the passes that it runs itself."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        """Total seconds by pass name."""
        self._running: list[list[float]] = []
        """For each running pass, the outermost first: its start, and the seconds spent in passes inside it."""

    def run_before_pass(self, _module: Any, _info: Any) -> None:
        self._running.append([time.perf_counter(), 0.0])

    def run_after_pass(self, _module: Any, info: Any) -> None:
        start, inside = self._running.pop()
        elapsed = time.perf_counter() - start
        if self._running:
            self._running[-1][1] += elapsed
        name = str(info.name)
        self.seconds[name] = self.seconds.get(name, 0.0) + elapsed - inside

    def lines(self) -> Iterator[str]:
        """A line per pass, the slowest first, then the sum."""
        for name, seconds in sorted(self.seconds.items(), key=lambda item: -item[1]):
            yield f"{PASS_TIME}{seconds * 1000:9.2f} ms  {name}"
        yield f"{PASS_TIME}{sum(self.seconds.values()) * 1000:9.2f} ms  all passes"
