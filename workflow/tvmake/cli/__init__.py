"""The command line: plumbing (``tvmake step …``, what rules call) and porcelain (make, check, init, doctor …)."""

import sys


def main() -> None:
    """Run ``tvmake``; a step of a running ``tvmake make`` is forked from a warm process."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["step"]:
        from tvmake.cli.warm_step import run_warm

        code = run_warm(arguments)
        if code is not None:
            sys.exit(code)
    sys.exit(run(arguments))


def run(arguments: list[str]) -> int:
    """Run ``tvmake`` with these arguments and return its exit code; a TvmakeError becomes one clear line."""
    from tvmake.cli.app import app
    from tvmake.errors import TvmakeError

    try:
        app(arguments, prog_name="tvmake")
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
    except TvmakeError as error:
        print_error(error)
        return error.exit_code
    except BrokenPipeError:
        # The reader of our output went away (`tvmake targets | head`).
        sys.stderr.close()
        return 141
    return 0


def print_error(error: Exception) -> None:
    """Print ``error: …`` for each mistake, remedies below them."""
    from tvmake.errors import ErrorList

    for single in error.errors if isinstance(error, ErrorList) else (error,):
        print(f"error: {single}", file=sys.stderr)
