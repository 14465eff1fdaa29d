"""A run of one model for one target and precision without a user's config: its generated config and directory."""

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from tvmake.errors import InputError, TvmakeError
from tvmake.frontend.zoo_names import ZOO
from tvmake.plan.layer_paths import with_absolute_paths
from tvmake.process.output import argument, drop_accents
from tvmake.storage.files import digest_bytes, write_text, writing
from tvmake.storage.notes.state_file import read_state, write_state

if TYPE_CHECKING:
    from tvmake.config.reading.notation import Notation
    from tvmake.config.root import Config
    from tvmake.config.target import TargetConfig

RUN_LOCK = ".held"
"""Lock file of a run's directory."""

WORK = Path(".tvmake")
"""Parent directory of such runs."""

LONGEST_NAME = 80
"""Maximum length of names of models and targets in a config."""

NATIVE = "native"
"""This machine's CPU, as a target."""

DEVICE = "device"
"""Name of the device in such a config."""

TUNED = "tuned.json"
"""File in a run's directory with the tuning options of its variants, by precision."""

FORM = 1
"""Format version of that file."""


FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
"""A source that may be a function of a module."""


@dataclass(frozen=True)
class SingleRun:
    """A run for one package.

    Args:
        source: a model's file, or ``zoo:<name>``.
        target: a name from the catalogue, or a target in TVM's syntax; :data:`NATIVE` is this machine's CPU.
        trials: candidates to measure; 0 for a package that is not tuned.
        model: additional keys of the model's config: inputs, dims …
        target_keys: additional keys of the target: cc, link_options …
        layer: a config layer that overrides all this; its relative paths start at ``root``.
        device: device to measure kernels on, as keys of its config; None for the target's.
        layer_name: the option that gave the layer (:func:`tvmake.config.reading.load.load_layers`), for messages.
        options: options by the dotted config key that they set, for messages.
        name: the model's name; by default from its file.
        root: directory that paths are relative to.
        self_test: whether the package gets samples for its self-test; the model's framework runs it for these.

    Raises:
        InputError: the file, target or precision does not exist.
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
        if any(0xDC80 <= ord(character) <= 0xDCFF for character in self.source):  # undecodable bytes
            encoding = sys.getfilesystemencoding()
            remedy = "rename it" if encoding == "utf-8" else "set LC_ALL=C.UTF-8"
            raise InputError(self.source, f"its name is not valid {encoding}, the encoding of names here", remedy)
        if unprintable := next((character for character in self.source if not character.isprintable()), None):
            raise InputError(
                self.source, f"a path cannot contain control characters such as {unprintable!a}", "rename it"
            )
        from tvmake.artifact.package import is_package

        file = self.root / self.source
        if file.is_dir() and self.source:
            from tvmake.frontend.checkpoint_files import is_checkpoint
            from tvmake.frontend.file_kinds import directory_remedy

            if is_checkpoint(str(file)):
                return
            remedy = directory_remedy(str(file)) or "name the model's file in it"
            raise InputError(self.source, "is a directory, not a model", remedy)
        if file.suffix in (".yaml", ".yml"):
            raise InputError(
                self.source,
                "is a config, not a model",
                f"`tvmake make -c {argument(self.source)}` builds it",
            )
        if file.suffix == ".tar" and is_package(file):
            raise InputError(self.source, "is a package, not a model", f"`tvmake run {argument(self.source)}` runs it")
        if not file.is_file():
            from tvmake.frontend.file_kinds import missing_file_remedy
            from tvmake.storage.plain_files import broken_link, special_kind

            if problem := broken_link(file):
                raise InputError(self.source, problem, "correct the link, or name the file")
            if kind := special_kind(file):
                raise InputError(self.source, f"is {kind}, not a file", "write the model into a file, and name it")
            if FUNCTION.fullmatch(self.source):
                remedy = f"`tvmake init {self.source}` writes one"
                raise InputError(self.source, "is a Python function, which runs only if a config trusts it", remedy)
            remedy = "give a model's file, or zoo:<name>; a Python function needs a config: `tvmake init`"
            raise InputError(self.source, "no such file", missing_file_remedy(self.source, self.root) or remedy)

    def _check_target(self) -> None:
        from tvmake.config.target import target_keys

        if self.target.split(maxsplit=1)[:1] == [NATIVE] and self.target != NATIVE:
            remedy = "write llvm with your options, such as llvm -mcpu=skylake, or native without options"
            raise InputError("target", f"{NATIVE} is this machine's CPU and takes no options", remedy)
        try:
            if self.target != NATIVE:
                target_keys(self.target)
        except ValueError as error:
            problem, _, remedy = str(error).partition("; ")
            raise InputError("target", problem, remedy or "`tvmake targets` lists all targets") from None

    def _check_precision(self) -> None:
        from tvmake.config.reading.messages import one_of
        from tvmake.quantize.precision import BasePrecision

        known = [*get_args(BasePrecision), *self.layer.get("precisions", ())]
        if self.precision not in known:
            raise InputError("precision", *one_of(self.precision, known))

    @property
    def model_name(self) -> str:
        """The model's name in the config."""
        path = Path(self.source.removeprefix(ZOO))
        return self.name or name_of(path.name if (self.root / path).is_dir() else path.stem)

    @property
    def target_name(self) -> str:
        """The target's name in the config."""
        return name_of(self.target)

    @property
    def parent(self) -> Path:
        """The directory of all such runs."""
        return self.root / WORK

    @property
    def directory(self) -> Path:
        """The run's full path. Runs of one model and target share it, so that nothing is built twice."""
        return self.parent / f"{self.model_name}-{self.target_name}"

    @property
    def config_file(self) -> Path:
        """The path of the config file."""
        return self.directory / "tvmake.yaml"

    def result(self, artifact: str) -> str:
        """Path of a result of the variant, in the directory."""
        return f"results/{self.model_name}/{self.precision}/{self.target_name}/{artifact}"

    @property
    def build_log(self) -> str:
        """Path of the variant's build log, in the directory."""
        return f"logs/{self.model_name}/{self.precision}/{self.target_name}/build.log"

    def command(self, artifact: str) -> list[str]:
        """Arguments of ``tvmake`` that make a result of the variant."""
        result, directory = self.result(artifact), str(self.directory)
        notation = self.notation().dump()
        return ["make", result, "--directory", directory, "--config", str(self.config_file), "--notation", notation]

    def config(self) -> dict[str, Any]:
        """The config."""
        from tvmake.config.reading.load import merge  # imports pydantic, which `tvmake --help` does not need

        return merge(self._config(), self._layer())

    def _layer(self) -> dict[str, Any]:
        return with_absolute_paths(self.layer, self.root)

    def _config(self) -> dict[str, Any]:
        """The config without the layer."""
        files = {"files": self._external_files} if self._external_files else {}
        return {
            "models": {self.model_name: {"source": self.full_source, **files, **self.model}},
            "precisions": [self.precision],
            "targets": {self.target_name: self._target()},
            "tuning": {"trials": self.trials},
            "export": {"self_test": self.self_test},
            **({"devices": {DEVICE: dict(self.device)}} if self.device else {}),
        }

    @property
    def full_source(self) -> str:
        """The model's full path, or ``zoo:<name>``."""
        # A link keeps its name: caches of downloads link to files whose names have no suffix.
        return self.source if self.source.startswith(ZOO) else str((self.root / self.source).absolute())

    @cached_property
    def _external_files(self) -> list[str]:
        from tvmake.frontend.external_data import external_files
        from tvmake.frontend.options import ImportOptions

        return external_files(ImportOptions.model_construct(source=self.full_source))

    def _target(self) -> Any:
        keys = {**self.target_keys, **({"device": DEVICE} if self.device else {})}
        if self.target == NATIVE:
            return {"kind": "llvm", "mcpu": NATIVE, **keys}
        from tvmake.config.target import target_keys

        return {**target_keys(self.target), **keys} if keys else self.target

    def note_tuning(self) -> None:
        """Record the tuning of the variant, so that later runs without a number of trials use its results."""
        chosen = {"trials": self.trials, "device": self.device, "tuning": self.layer.get("tuning", {})}
        tuned = {**self._read_trials(), self.precision: chosen}
        write_state(self.directory / TUNED, FORM, tuned)

    def as_tuned(self) -> "SingleRun":
        """This run with the trials, device and settings of an earlier tuning, if any."""
        from tvmake.config.reading.load import merge

        known = self._read_trials().get(self.precision)
        if not isinstance(known, dict) or known.keys() != {"trials", "device", "tuning"}:
            return self
        layer = merge({"tuning": known["tuning"]}, dict(self.layer))
        return replace(self, trials=known["trials"], device=known["device"], layer=layer)

    def _read_trials(self) -> dict[str, Any]:
        known = read_state(self.directory / TUNED, FORM)
        return known if isinstance(known, dict) else {}

    def check_config(self) -> "Config":
        """Return the validated config.

        Raises:
            InputError, ErrorList: the config is invalid; errors name the options that set the keys.
        """
        from tvmake.config.reading.load import load_layers, one_or_many
        from tvmake.config.reading.positions import NO_FILE
        from tvmake.errors import ErrorList

        try:
            return load_layers([], self._layer(), first=self._config(), given_as=self.layer_name)
        except InputError as error:
            raise self._as_given(error, NO_FILE) from None
        except ErrorList as errors:
            raise one_or_many([self._as_given(error, NO_FILE) for error in errors.errors]) from None

    @property
    def input_values(self) -> dict[str, Any]:
        """Values of inputs that the package does not take, by name."""
        inputs = self.config()["models"][self.model_name].get("inputs", {})
        return {name: keys["value"] for name, keys in inputs.items() if keys.get("value") is not None}

    def notation(self) -> "Notation":
        """How the user writes what the config has as keys."""
        from tvmake.config.reading.notation import Notation

        named = {f"models.{self.model_name}.source": self.source, f"targets.{self.target_name}": "target"}
        options = {**named, f"precisions.{self.precision}": "precision", **self.options}
        kind: Literal["options", "arguments"] = "options" if self.layer_name == "--set" else "arguments"
        return Notation(kind, self.model_name, self.full_source, self.source, options)

    def _as_given(self, error: TvmakeError, nowhere: str) -> TvmakeError:
        """Name the option that set a key in an error about the key."""
        from tvmake.config.variants import LEAVE_OUT

        key, _, problem = error.problem.partition(": ")
        notation = self.notation()
        option = notation.option_of(key)
        if option is None or (option not in self.options.values() and error.where != nowhere):
            return error
        remedy = error.remedy and error.remedy.replace(LEAVE_OUT, "name another precision or another target")
        problem = notation.translate(problem.replace(repr(self.full_source), "it"))
        return type(error)(option, problem, remedy and notation.translate(remedy))

    @contextmanager
    def lock_directory(self) -> Iterator[None]:
        """Lock the directory, which runs of one model and target share, from writing the config to taking the result.

        Waits for another run.

        Raises:
            MachineError: the directory cannot be written.
        """
        from filelock import FileLock, Timeout

        with writing(self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.directory / RUN_LOCK)
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
    """A name for a model or target: letters, digits and dashes of the text, and its digest if the name is long."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", drop_accents(text)).strip("-").lower() or "model"
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 9]}-{digest_bytes(text.encode())[:8]}"
