"""Generate tokens with a language model's package: the prompt in one run, then a run for each token."""

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from tvmake.artifact.language_model import LanguageModel, language_model
from tvmake.errors import InputError
from tvmake.options import Positive
from tvmake.running.arguments import validate_argument
from tvmake.running.package import Package

Seed = Annotated[int, Field(ge=0)]
Probability = Annotated[float, Field(gt=0, le=1)]
Temperature = Annotated[float, Field(gt=0)]
Choose = Callable[[np.ndarray], int]
"""Chooses a token by its logits."""


def generate(
    package: Package,
    ids: Sequence[int],
    steps: int,
    *,
    temperature: float | None = None,
    top_p: float | None = None,
    seed: int = 0,
    tokens: str | None = None,
    logits: str | None = None,
) -> Iterator[int]:
    """Generate tokens with a package of a language model, in a session of its own.

    The first run takes the whole prompt, each further one a token. By default the token with the greatest logit is chosen.

    Args:
        ids: the prompt.
        steps: the number of tokens to generate.
        temperature: draw tokens; smaller values prefer probable ones. 1 if only ``top_p`` is given.
        top_p: draw only among the most probable tokens that together have this probability.
        seed: of the draws.
        tokens: the input that takes tokens; by default it is recognised.
        logits: the output with logits; by default it is recognised.

    Raises:
        InputError: the package is not one of a language model, the prompt does not fit it, or an argument is invalid.
    """
    validate_argument("steps", Positive, steps)
    model = language_model(package.manifest.signature, tokens, logits)
    prompt = _check_prompt(model, ids, steps)
    choose = _choice(temperature, top_p, seed)
    return _generate(package, model, prompt, steps, choose)


def _generate(package: Package, model: LanguageModel, prompt: list[int], steps: int, choose: Choose) -> Iterator[int]:
    session, position = package.session(), 0
    length = model.tokens.shape[-1]
    parts = [[token] for token in prompt] if length == 1 else [prompt]
    while True:
        for part in parts:
            outputs = session.run(model.inputs(part, position))
            position += len(part)
        token = choose(outputs[model.logits.name].reshape(-1, model.vocabulary)[-1])
        yield token
        if (steps := steps - 1) == 0:
            return
        parts = [[token]]


def _check_prompt(model: LanguageModel, ids: Sequence[int], steps: int) -> list[int]:
    prompt = validate_argument("ids", list[int], np.asarray(ids).tolist())
    if not prompt:
        raise InputError("prompt", "has no tokens", "give at least one, such as that for the beginning of a text")
    if outside := [token for token in prompt if not 0 <= token < model.vocabulary]:
        problem = f"has token {outside[0]}, and the package has tokens 0 to {model.vocabulary - 1}"
        raise InputError("prompt", problem, "give the tokens of the model's own tokenizer")
    length = model.tokens.shape[-1]
    if isinstance(length, int) and length != 1:
        problem = f"takes {length} tokens in each run, and generation needs runs of one"
        raise InputError("package", problem, "compile the model with a dynamic sequence, or `dims: {sequence: 1}`")
    total = len(prompt) + steps - 1  # the last token is not an input
    if model.context is not None and total > model.context:
        room = model.context + 1 - len(prompt)
        remedy = f"generate at most {room} tokens" if room > 0 else "shorten the prompt"
        raise InputError(
            "prompt",
            f"and {steps} steps need room for {total} tokens, and the package has it for {model.context}",
            remedy,
        )
    return prompt


def _choice(temperature: float | None, top_p: float | None, seed: int) -> Choose:
    if temperature is None and top_p is None:
        return lambda scores: int(scores.argmax())
    heat = validate_argument("temperature", Temperature, 1.0 if temperature is None else temperature)
    share = validate_argument("top_p", Probability, 1.0 if top_p is None else top_p)
    generator = np.random.default_rng(validate_argument("seed", Seed, seed))

    def draw(scores: np.ndarray) -> int:
        scaled = scores.astype("float64") / heat
        chances = np.exp(scaled - scaled.max())
        chances /= chances.sum()
        order = np.argsort(-chances, kind="stable")
        kept = order[: int(np.searchsorted(np.cumsum(chances[order]), share)) + 1]
        return int(generator.choice(kept, p=chances[kept] / chances[kept].sum()))

    return draw
