"""The command line: plumbing (``tvmake step …``, what rules call) and porcelain (make, check, init, doctor …)."""

import sys


def main() -> None:
    """Run ``tvmake``; a TvmakeError becomes one clear line and its exit code."""
    from tvmake.cli.app import app
    from tvmake.errors import TvmakeError

    try:
        app()
    except TvmakeError as error:
        print_error(error)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader of our output went away (`tvmake targets | head`).
        sys.stderr.close()
        sys.exit(141)


def print_error(error: Exception) -> None:
    """Print ``error: …`` for each mistake, remedies below them."""
    from tvmake.errors import ErrorList

    for single in error.errors if isinstance(error, ErrorList) else (error,):
        print(f"error: {single}", file=sys.stderr)
