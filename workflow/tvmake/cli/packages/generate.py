"""``tvmake run --prompt``: generate tokens with a package."""

from dataclasses import dataclass
from pathlib import Path

import typer

DEFAULT_STEPS = 64


@dataclass(frozen=True)
class Prompt:
    """What the options ask for."""

    ids: str | None
    text: str | None
    tokenizer: Path | None
    steps: int | None
    temperature: float | None
    top_p: float | None
    seed: int
    tokens: str | None
    logits: str | None


def print_generated(package: Path, prompt: Prompt, as_json: bool) -> None:
    """Generate, and print the tokens as they come, their text if there is a tokenizer, and how long it took.

    Raises:
        TvmakeError: the package is not one of a language model, or the prompt does not fit it.
    """
    import json
    import time

    import tvmake
    from tvmake.artifact.language_model import language_model
    from tvmake.artifact.tokenizer_file import TOKENIZER
    from tvmake.process.output import counted, printable
    from tvmake.running.generation import generate
    from tvmake.running.tokenizer import Tokenizer

    opened = tvmake.open(package)
    model = language_model(opened.manifest.signature, prompt.tokens, prompt.logits)
    file = prompt.tokenizer or opened.tokenizer or package.parent / TOKENIZER
    needs_tokenizer = prompt.text is not None or prompt.tokenizer is not None
    tokenizer = Tokenizer(file, model.vocabulary) if needs_tokenizer else None
    ids = tokenizer.encode(prompt.text) if tokenizer and prompt.text is not None else _ids(prompt.ids or "")
    generated = generate(
        opened,
        ids,
        prompt.steps or DEFAULT_STEPS,
        temperature=prompt.temperature,
        top_p=prompt.top_p,
        seed=prompt.seed,
        tokens=prompt.tokens,
        logits=prompt.logits,
    )
    opened.session()  # loads the package, which does not count
    found: list[int] = []
    times = [time.perf_counter()]
    for token in generated:
        times.append(time.perf_counter())
        if not as_json:
            typer.echo(f"{' ' if found else ''}{token}", nl=False)
        found.append(token)
    text = tokenizer.decode([*ids, *found]) if tokenizer else None
    first_ms = (times[1] - times[0]) * 1e3
    rate = (len(found) - 1) / (times[-1] - times[1]) if len(found) > 1 else None
    if as_json:
        result = {"prompt": ids, "tokens": found, "text": text, "first_token_ms": first_ms, "tokens_per_s": rate}
        typer.echo(json.dumps(result, indent=2))
        return
    typer.echo("")
    if text is not None:
        typer.echo(printable(f"\n{text}"))
    further = f", then {rate:.4g} tokens/s" if rate else ""
    typer.echo(f"\n{counted(len(ids), 'token')} of prompt, first token after {first_ms:.1f} ms{further}")


def _ids(text: str) -> list[int]:
    from tvmake.errors import UsageError

    parts = text.replace(",", " ").split()
    if not parts or not all(part.isascii() and part.isdigit() for part in parts):
        raise UsageError(f"--prompt-ids {text}", "expected numbers of tokens", "for example: --prompt-ids 1,15,27")
    return [int(part) for part in parts]
