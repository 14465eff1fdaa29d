"""The command line: plumbing (``tvmake step …``, what rules call) and porcelain (make, check, init, doctor …)."""

import sys


def main() -> None:
    """Run ``tvmake``; a step of a running ``tvmake make`` is forked from a warm process."""
    arguments = sys.argv[1:]
    try:
        if arguments[:1] == ["step"]:
            from tvmake.cli.step.warm import run_warm

            code = run_warm(arguments)
            if code is not None:
                sys.exit(code)
        sys.exit(run(arguments))
    except KeyboardInterrupt:  # while modules are imported; commands see to it later
        sys.exit(130)


def run(arguments: list[str]) -> int:
    """Run ``tvmake`` with these arguments and return its exit code; a TvmakeError becomes one clear line."""
    from tvmake.cli import completion, verbosity
    from tvmake.cli.app import command
    from tvmake.errors import TvmakeError, print_error
    from tvmake.process.output import escaped_output, refusal
    from tvmake.process.python import protect_children
    from tvmake.process.tvm_import import hide_torch_from_tvm

    hide_torch_from_tvm()
    protect_children()
    with escaped_output():
        try:
            if completion.is_asked():
                completion.prepare()
            command()(arguments, prog_name="tvmake")
        except SystemExit as exit_:
            return exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
        except TvmakeError as error:
            verbosity.print_origin(error)
            print_error(error)
            return error.exit_code
        except BrokenPipeError:
            # The reader of our output went away (`tvmake targets | head`).
            sys.stderr.close()
            return 141
        except OSError:
            if (refused := refusal()) is None:
                raise
            print_error(refused)
            return refused.exit_code
    return 0
