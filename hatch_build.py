"""A build hook: wheel and sdist have the commit that they are built from in ``tvmake/resources/revision.json``."""

import json
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

IN_SDIST = "revision.json"
IN_WHEEL = "tvmake/resources/revision.json"


class RevisionHook(BuildHookInterface):
    """Adds the file if there is a git checkout; a wheel of an sdist takes the sdist's."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it builds."""
        destination = IN_WHEEL if self.target_name == "wheel" else IN_SDIST
        if version == "editable":
            return
        if (Path(self.root) / IN_SDIST).is_file():
            build_data["force_include"][str(Path(self.root) / IN_SDIST)] = destination
            return
        commit, status = self._git("rev-parse", "HEAD"), self._git("status", "--porcelain", "--untracked-files=no")
        if commit is None or status is None:
            return
        self._directory = TemporaryDirectory()
        file = Path(self._directory.name) / IN_SDIST
        file.write_text(json.dumps({"commit": commit, "modified": bool(status)}) + "\n")
        build_data["force_include"][str(file)] = destination

    def _git(self, *arguments: str) -> str | None:
        if not (Path(self.root) / ".git").exists():
            return None
        done = subprocess.run(["git", "-C", self.root, *arguments], capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else None
