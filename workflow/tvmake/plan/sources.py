"""The files a stage reads besides models, datasets and other stages' outputs: Python modules of the user."""

from tvmake.frontend.model_files import python_file
from tvmake.transform.options import UserPass


def pass_files(passes: list[UserPass]) -> list[str]:
    """The Python files that user passes come from."""
    return list(dict.fromkeys(python_file(user_pass.use) for user_pass in passes))
