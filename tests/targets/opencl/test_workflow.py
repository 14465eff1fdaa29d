"""The whole workflow for an OpenCL target that runs on this machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import HANG_S
from tests.targets.opencl.test_packages import DIGITS, first_device

CONFIG = f"""
models: {{digits: {{source: {DIGITS}}}}}
targets: {{tex: {{tag: adreno-730-texture, device: local, tuning: {{trials: 3, floor: 1, measure: {{repeat: 1, min_repeat_ms: 1}}}}}}}}
validation: {{samples: 2}}
benchmark: {{profile: quick}}
"""


@pytest.mark.long
def test_texture_kernels_are_tuned_validated_and_timed(tmp_path: Path):
    assert first_device().exist
    (tmp_path / "tvmake.yaml").write_text(CONFIG)
    subprocess.run(
        [sys.executable, "-c", "from tvmake.cli import main; main()", "make"],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        check=True,
        timeout=HANG_S,
    )
    package = tmp_path / "results/digits/float32/tex"
    covered = json.loads((package / "mod.json").read_bytes())["coverage"]
    assert covered["tunable"] == 3 and covered["tuned"] + len(covered["misses"]) == 3
    summary = json.loads((tmp_path / "results/summary.json").read_bytes())
    assert '"pass"' in json.dumps(summary)
