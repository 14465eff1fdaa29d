"""The context that TVM's passes run in, a record of what each of them did, and of how long it took."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tvm

from tvmake.codegen.options import PASS_TIME, PassOptions

NO_SETTINGS: Mapping[str, Any] = {}

WHOLE = ("sequential",)
"""Names under which passes run other passes: what they did, those did."""


def pass_context(
    options: PassOptions, more: Mapping[str, Any] = NO_SETTINGS, instruments: Sequence[Any] = ()
) -> "tvm.transform.PassContext":
    """The context that a build's options ask for.

    Args:
        more: settings besides the options'.
    """
    return tvm.transform.PassContext(
        opt_level=options.opt_level,
        disabled_pass=list(options.disabled_passes),
        instruments=list(instruments),
        config={**options.pass_config, **more},
    )


@tvm.ir.instrument.pass_instrument
class PassRecord:
    """The names of all passes that run, and the module as text after each that changed it."""

    def __init__(self, keeps_texts: bool = True):
        self.names: list[str] = []
        self.texts: dict[str, str] = {}
        """By file name; in order."""
        self._keeps_texts = keeps_texts
        self._last = ""

    def begin(self, module: "tvm.IRModule") -> None:
        """Forget what was recorded; ``module`` is what the passes begin with."""
        self.names, self.texts, self._last = [], {}, ""
        self._keep("transformed", module)

    def run_after_pass(self, module: Any, info: Any) -> None:
        """See :class:`tvm.ir.instrument.PassInstrument`."""
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
    """How long each pass ran, without the passes that it ran itself."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        """By the pass's name, all its runs together."""
        self._running: list[list[float]] = []
        """Of each pass that runs, the outermost first: when it began, and the seconds that were spent in others inside it."""

    def run_before_pass(self, _module: Any, _info: Any) -> None:
        """See :class:`tvm.ir.instrument.PassInstrument`."""
        self._running.append([time.perf_counter(), 0.0])

    def run_after_pass(self, _module: Any, info: Any) -> None:
        """See :class:`tvm.ir.instrument.PassInstrument`."""
        began, inside = self._running.pop()
        took = time.perf_counter() - began
        if self._running:
            self._running[-1][1] += took
        name = str(info.name)
        self.seconds[name] = self.seconds.get(name, 0.0) + took - inside

    def lines(self) -> Iterator[str]:
        """A line for each pass, the longest first, and their sum."""
        for name, seconds in sorted(self.seconds.items(), key=lambda item: -item[1]):
            yield f"{PASS_TIME}{seconds * 1000:9.2f} ms  {name}"
        yield f"{PASS_TIME}{sum(self.seconds.values()) * 1000:9.2f} ms  all passes"
