"""What benchmarks/random_faults.py consists of: the project, the faults, one round, the checks after it, the summary."""

import sys

from comparing import ROOT

if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))  # tests/ lies beside the package, not in it
