"""Parts of benchmarks/random_faults.py: the project, the faults, a round, its checks, the summary."""

import sys

from comparing import ROOT

if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))  # tests/ lies beside the package, not in it
