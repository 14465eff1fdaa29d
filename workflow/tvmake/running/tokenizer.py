"""Tokens of a text, and back, with a model's tokenizer.json."""

from pathlib import Path
from typing import Any

from tvmake.artifact.tokenizer_file import TOKENIZER
from tvmake.errors import InputError, MachineError


class Tokenizer:
    """A tokenizer of the library ``tokenizers``.

    Args:
        file: a tokenizer.json, or the directory with it.
        vocabulary: the number of tokens of the network.

    Raises:
        InputError: it is missing or damaged, or has more tokens than the network.
        MachineError: the library is missing.
    """

    def __init__(self, file: Path, vocabulary: int):
        path = file / TOKENIZER if file.is_dir() else file
        if not path.is_file():
            remedy = (
                f"copy the model's {TOKENIZER} there, name it with --tokenizer FILE, or give tokens: --prompt-ids 1,15"
            )
            raise InputError(str(path), "no such file", remedy)
        try:
            import tokenizers  # type: ignore[import-not-found,unused-ignore]
        except ImportError:
            problem = "reading it needs the library 'tokenizers'"
            raise MachineError(str(path), problem, "install it: pip install 'tvmake[tokenizers]'") from None
        try:
            self._tokenizer: Any = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # noqa: BLE001 -- the library raises this very type
            line = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
            raise InputError(
                str(path), f"is not a tokenizer, or damaged: {line}", "copy or download the file again"
            ) from None
        if (count := self._tokenizer.get_vocab_size()) > vocabulary:
            problem = f"has {count} tokens, and the network {vocabulary}"
            raise InputError(str(path), problem, "give the model's own tokenizer")

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, with those that its model expects around it."""
        return list(self._tokenizer.encode(text).ids)

    def decode(self, ids: list[int]) -> str:
        """The text of tokens, without special ones."""
        return str(self._tokenizer.decode(ids))
