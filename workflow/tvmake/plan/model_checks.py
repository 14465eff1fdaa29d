"""Check what a config says of its models against their files, as far as these can be read without running code or an import."""

from collections.abc import Collection, Mapping
from pathlib import Path

from tvmake.artifact.links import resolve_links, resolve_names
from tvmake.artifact.signature import Signature
from tvmake.artifact.tokenizer_file import check_vocabulary
from tvmake.config.reading.load import one_or_many
from tvmake.config.root import FunctionsConfig, ModelConfig, override
from tvmake.errors import InputError, TvmakeError
from tvmake.frontend.checkpoint import read_config
from tvmake.frontend.checkpoint_files import tokenizer_of
from tvmake.frontend.configured_inputs import check_inputs
from tvmake.frontend.inspect import Declared, configured, inspect_sources
from tvmake.frontend.state_pairs import without_states
from tvmake.frontend.trust import check_trusted
from tvmake.plan.dimension_checks import check_dims
from tvmake.plan.plan import Plan


def check_models(plan: Plan) -> dict[str, Signature]:
    """Check that each model can be read, so that errors of the import are reported before it.

    Returns:
        The signatures that are known without running a model, by model.

    Raises:
        InputError, ErrorList: a model cannot be read, or its `inputs:` contradict it.
    """
    signatures = _read_signatures(plan, plan.config.networks, must_be_readable=True)
    check_links(plan, signatures)
    check_tokenizers(plan, plan.config.networks)
    return signatures


def check_tokenizers(plan: Plan, names: Collection[str]) -> None:
    """Refuse tokenizers with tokens that their networks lack, of models that can be read.

    Raises:
        InputError, ErrorList: naming the file.
    """
    errors: list[TvmakeError] = []
    for name in names:
        model = plan.config.networks[name]
        file = tokenizer_of(model.source)
        if file is None or not override(plan.config.export, model.export).tokenizer:
            continue
        try:
            vocabulary = read_config(Path(model.source)).vocabulary
        except InputError:
            continue  # the import reports it
        try:
            check_vocabulary(Path(file), vocabulary)
        except InputError as error:
            errors.append(error)
    if errors:
        raise one_or_many(errors)


def check_links(plan: Plan, signatures: Mapping[str, Signature]) -> None:
    """Refuse links and separate states that the functions of a model do not have, as far as all of them are known.

    Raises:
        InputError, ErrorList: naming the key.
    """
    errors: list[TvmakeError] = []
    for name, model in plan.config.models.items():
        functions = plan.config.functions(name)
        if not isinstance(model, FunctionsConfig) or not signatures.keys() >= {*functions.values()}:
            continue
        known, where = {function: signatures[network] for function, network in functions.items()}, f"models.{name}."
        try:
            resolve_links(model.links, known, where, has_sizes=False)
            resolve_names(model.separate_states, known, where)
        except InputError as error:
            errors.append(error)
    if errors:
        raise one_or_many(errors)


def check_names(plan: Plan, names: Collection[str]) -> None:
    """Refuse dimensions and inputs that models do not have, sizes that they do not take, before they are imported.

    A model that cannot be read is left to its import.

    Args:
        names: the models to check.

    Raises:
        InputError, ErrorList: naming the key, and the nearest name.
    """
    check_tokenizers(plan, names)
    models = {name: plan.config.networks[name] for name in names}
    linked = {
        network
        for name, model in plan.config.models.items()
        if isinstance(model, FunctionsConfig) and (model.links or model.separate_states)
        for network in plan.config.functions(name).values()
    }
    models = {
        name: model
        for name, model in models.items()
        if model.dims or model.shapes or model.inputs or model.state or name in linked
    }
    signatures = _read_signatures(plan, models, must_be_readable=False)
    check_links(plan, signatures)
    check_dims(plan, signatures)


def _read_signatures(plan: Plan, models: Mapping[str, ModelConfig], *, must_be_readable: bool) -> dict[str, Signature]:
    """The signatures that are known without running a model, after comparing `inputs:` with them; each source is read once."""
    errors: list[TvmakeError] = []
    signatures = {}
    inspect_source = inspect_sources(model.import_options() for model in models.values())
    for name, model in models.items():
        options, where = model.import_options(), plan.config.key_of(name)
        try:
            source = inspect_source(options)
            check_trusted(options)
        except TvmakeError as error:
            if not must_be_readable:
                continue
            if not isinstance(error, InputError):
                raise
            errors.append(InputError(f"{where}.source: {error.where}", error.problem, error.remedy))
            continue
        if wrong := _wrong_inputs(where, model, source):
            errors += wrong
        elif (signature := configured(source, options)) is not None:
            try:
                signatures[name] = without_states(
                    signature, options.state, f"{where}.state", writes_inputs=source.format == "pt2"
                )
            except InputError as error:
                errors.append(error)
    if errors:
        raise one_or_many(errors)
    return signatures


def _wrong_inputs(model_key: str, model: ModelConfig, source: Declared) -> list[InputError]:
    """The errors of the `inputs:` of a model that its file contradicts."""
    errors = []
    signature = Signature(inputs=tuple(source.inputs), outputs=())
    for entry, spec in model.import_options().inputs.items() if source.inputs else ():
        key = next((key for key in ("shape", "value", "dtype") if getattr(spec, key) is not None), "range")
        where = f"{model_key}.inputs.{entry}.{key}"
        try:
            check_inputs(where, signature, {entry: spec})
        except InputError as error:
            errors.append(error)
    return errors
