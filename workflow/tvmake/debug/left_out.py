"""A user's passes left out, to find the one that is wrong."""

from collections.abc import Iterator, Sequence

from tvmake.config.transform import UserPass


def without_passes(passes: Sequence[UserPass]) -> Iterator[tuple[str, list[UserPass]]]:
    """The passes without each of them, and without all, with a name for what is left out."""
    for one in passes:
        yield f"the pass {one.use}", [other for other in passes if other is not one]
    if len(passes) > 1:
        yield f"the passes {', '.join(one.use for one in passes)}", []


def leave_out(name: str) -> str:
    """What to do about a setting that is wrong, or about passes that are only together."""
    return f"leave {name} out, or mend {'them' if name.startswith('the passes') else 'it'}"
