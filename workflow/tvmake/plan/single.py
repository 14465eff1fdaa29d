"""One model for one target and precision, without a config of its user's: what such a run is made of, and where."""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from tvmake.config.text.names import REPEATING
from tvmake.errors import InputError, TvmakeError
from tvmake.frontend.zoo_names import ZOO
from tvmake.process.output import argument
from tvmake.storage.files import digest_bytes, write_text, writing
from tvmake.storage.notes.state_file import read_state, write_state

if TYPE_CHECKING:
    from tvmake.config.root import Config
    from tvmake.config.target import TargetConfig

HELD = ".held"
"""Locked while a command works in a run's directory."""

WORK = Path(".tvmake")
"""Where such runs are made, beside what users see: a directory each."""

LONGEST_NAME = 80
"""As a config takes them for models and targets."""

NATIVE = "native"
"""This machine's CPU, as a target."""

DEVICE = "device"
"""What the device is called in such a config."""

TUNED = "tuned.json"
"""In a run's directory: how its variants were tuned, by precision."""

FORM = 1
"""Of that note."""


FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
"""A function of a module that may be meant by a source."""


@dataclass(frozen=True)
class SingleRun:
    """A run for one package.

    Args:
        source: a model's file, or ``zoo:<name>``.
        target: a name of the catalogue, or a target as TVM spells it; :data:`NATIVE` is this machine's CPU.
        trials: candidates to measure; 0 for a package that is not tuned.
        model: further keys of the model's config: inputs, dims …
        target_keys: further keys of the target: cc, link_options …
        layer: a config laid over all this.
        device: where its kernels are measured, as keys of a device's config; None where the target says it.
        layer_name: how that was given (:func:`tvmake.config.reading.load.load_layers`), for messages.
        options: which option gave a key, by the key as it is written with dots, for messages.
        name: what the model is called; by default after its file.
        root: the directory that paths begin in.
        self_test: whether the package gets samples to test itself by, for which the model's framework has to run it.

    Raises:
        InputError: there is no such file, target or precision.
    """

    source: str
    target: str = NATIVE
    precision: str = "float32"
    trials: int = 0
    model: Mapping[str, Any] = field(default_factory=dict)
    target_keys: Mapping[str, Any] = field(default_factory=dict)
    layer: Mapping[str, Any] = field(default_factory=dict)
    layer_name: str = "--set"
    options: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    device: Mapping[str, Any] | None = None
    root: Path = field(default_factory=Path.cwd)
    self_test: bool = False

    def __post_init__(self) -> None:
        self._check_source()
        self._check_target()
        self._check_precision()

    def _check_source(self) -> None:
        if self.source.startswith(ZOO):
            return
        if unprintable := next((character for character in self.source if not character.isprintable()), None):
            raise InputError(self.source, f"a path holds no control characters such as {unprintable!a}", "rename it")
        from tvmake.artifact.package import is_package

        file = self.root / self.source
        if file.is_dir() and self.source:
            from tvmake.frontend.file_kinds import directory_remedy

            remedy = directory_remedy(str(file)) or "name the model's file in it"
            raise InputError(self.source, "is a directory, not a model", remedy)
        if file.suffix in (".yaml", ".yml"):
            raise InputError(
                self.source,
                "is a config, not a model",
                f"`tvmake make -c {argument(self.source)}` makes what it asks for",
            )
        if file.suffix == ".tar" and is_package(file):
            raise InputError(self.source, "is a package, not a model", f"`tvmake run {argument(self.source)}` runs it")
        if not file.is_file():
            from tvmake.frontend.file_kinds import missing_file_remedy
            from tvmake.storage.plain_files import broken_link

            if problem := broken_link(file):
                raise InputError(self.source, problem, "correct the link, or name the file")
            if FUNCTION.fullmatch(self.source):
                remedy = f"`tvmake init {self.source}` writes one"
                raise InputError(
                    self.source, "is a Python function, whose code runs only where a config trusts it", remedy
                )
            remedy = "give a model's file, or zoo:<name>; a Python function needs a config: `tvmake init`"
            raise InputError(self.source, "no such file", missing_file_remedy(self.source, self.root) or remedy)

    def _check_target(self) -> None:
        from tvmake.config.target import written_target

        if self.target.split(maxsplit=1)[:1] == [NATIVE] and self.target != NATIVE:
            remedy = "write llvm with options of your own, as in llvm -mcpu=skylake, or native alone"
            raise InputError("target", f"{NATIVE} is this machine's CPU, and takes no options", remedy)
        try:
            if self.target != NATIVE:
                written_target(self.target)
        except ValueError as error:
            problem, _, remedy = str(error).partition("; ")
            raise InputError("target", problem, remedy or "`tvmake targets` lists what there is") from None

    def _check_precision(self) -> None:
        from tvmake.config.reading.messages import one_of
        from tvmake.quantize.precision import BasePrecision

        known = [*get_args(BasePrecision), *self.layer.get("precisions", ())]
        if self.precision not in known:
            raise InputError("precision", *one_of(self.precision, known))

    @property
    def model_name(self) -> str:
        """The model's name in the config."""
        return self.name or name_of(Path(self.source.removeprefix(ZOO)).stem)

    @property
    def target_name(self) -> str:
        """The target's name in the config."""
        return name_of(self.target)

    @property
    def directory(self) -> Path:
        """Where it runs; a full path. Runs for one model and target share it, so that nothing is made twice."""
        return self.root / WORK / f"{self.model_name}-{self.target_name}"

    @property
    def config_file(self) -> Path:
        """The config, once it is written."""
        return self.directory / "tvmake.yaml"

    def result(self, artifact: str) -> str:
        """The path of a result of the variant, in the directory."""
        return f"results/{self.model_name}/{self.precision}/{self.target_name}/{artifact}"

    @property
    def build_log(self) -> str:
        """The path of the log of the variant's build, in the directory."""
        return f"logs/{self.model_name}/{self.precision}/{self.target_name}/build.log"

    def command(self, artifact: str) -> list[str]:
        """The arguments of ``tvmake`` that make a result of the variant."""
        made, directory = self.result(artifact), str(self.directory)
        given = json.dumps(self.given_as())
        return ["make", made, "--directory", directory, "--config", str(self.config_file), "--given-as", given]

    def config(self) -> dict[str, Any]:
        """The config."""
        from tvmake.config.reading.load import merge  # with pydantic, which `tvmake --help` does without

        return merge(self._config(), self.layer)

    def _config(self) -> dict[str, Any]:
        """Without the layer."""
        return {
            "models": {self.model_name: {"source": self._source(), **self.model}},
            "precisions": [self.precision],
            "targets": {self.target_name: self._target()},
            "tuning": {"trials": self.trials},
            "export": {"self_test": self.self_test},
            **({"devices": {DEVICE: dict(self.device)}} if self.device else {}),
        }

    def _source(self) -> str:
        return self.source if self.source.startswith(ZOO) else str((self.root / self.source).resolve())

    def _target(self) -> Any:
        keys = {**self.target_keys, **({"device": DEVICE} if self.device else {})}
        if self.target == NATIVE:
            return {"kind": "llvm", "mcpu": NATIVE, **keys}
        from tvmake.config.target import written_target

        return {**written_target(self.target), **keys} if keys else self.target

    def note_tuning(self) -> None:
        """Note that the variant is tuned, so that later runs without a number of trials take what was found."""
        chosen = {"trials": self.trials, "device": self.device, "tuning": self.layer.get("tuning", {})}
        tuned = {**self._tuned(), self.precision: chosen}
        write_state(self.directory / TUNED, FORM, tuned)

    def as_tuned(self) -> "SingleRun":
        """This run with the trials, the device and the settings that the variant was tuned with, if it was."""
        from tvmake.config.reading.load import merge

        known = self._tuned().get(self.precision)
        if not isinstance(known, dict) or known.keys() != {"trials", "device", "tuning"}:
            return self
        layer = merge({"tuning": known["tuning"]}, dict(self.layer))
        return replace(self, trials=known["trials"], device=known["device"], layer=layer)

    def _tuned(self) -> dict[str, Any]:
        known = read_state(self.directory / TUNED, FORM)
        return known if isinstance(known, dict) else {}

    def check_config(self) -> "Config":
        """The config as it is read, unless it is wrong.

        Raises:
            InputError, ErrorList: it is, as far as its text tells; the layer's keys are named as they were given.
        """
        from tvmake.config.reading.load import load_layers, one_or_many
        from tvmake.config.reading.places import NO_FILE
        from tvmake.errors import ErrorList

        try:
            return load_layers([], self.layer, first=self._config(), given_as=self.layer_name)
        except InputError as error:
            raise self._as_given(error, NO_FILE) from None
        except ErrorList as errors:
            raise one_or_many([self._as_given(error, NO_FILE) for error in errors.errors]) from None

    def given_as(self) -> dict[str, str]:
        """What gave a key of the config, by the key as it is written with dots."""
        named = {f"models.{self.model_name}.source": self.source, f"targets.{self.target_name}": "target"}
        return {**named, f"precisions.{self.precision}": "precision", **self.options}

    def _as_given(self, error: TvmakeError, nowhere: str) -> TvmakeError:
        """An error about a key as one about what gave it."""
        from tvmake.config.reading.places import given_by
        from tvmake.config.variants import LEAVE_OUT

        key, _, problem = error.problem.partition(": ")
        given = given_by(key, self.given_as())
        if given is None or (given not in self.options.values() and error.where != nowhere):
            return error
        remedy = error.remedy and error.remedy.replace(LEAVE_OUT, "name another precision or another target")
        return type(error)(given, problem.replace(repr(self._source()), "it"), remedy)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the directory from the config that is written to the result that is taken, which runs of one model and target share.

        Another run is waited for.

        Raises:
            MachineError: nothing can be written there.
        """
        from filelock import FileLock, Timeout

        with writing(self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.directory / HELD)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                print(f"note: waiting for another run of {self.model_name} for {self.target_name}", file=sys.stderr)
                lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def write_config(self) -> "TargetConfig":
        """Write the config into the directory; returns its target.

        Raises:
            InputError, ErrorList: as :meth:`check_config`.
        """
        import yaml

        config = self.check_config()
        self.directory.mkdir(parents=True, exist_ok=True)
        write_text(self.config_file, yaml.safe_dump(self.config(), sort_keys=False))
        self.config_file.chmod(0o600)  # the layer's values may be secrets
        return config.targets[self.target_name]


def name_of(text: str) -> str:
    """A name for a model or target: letters, digits and dashes of what was given, and its digest where that is long or repetitive."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-").lower() or "model"
    is_taken = len(name) <= LONGEST_NAME and not REPEATING.search(name)
    return name if is_taken else f"{name[: LONGEST_NAME - 9]}-{digest_bytes(text.encode())[:8]}"
