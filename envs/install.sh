#!/bin/sh
# Create a virtual environment and install a lock file and tvmake itself into it: install.sh PYTHON VENV LOCK
set -eu
python=$1 venv=$2 lock=$3

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "error: $python is not Python 3.11 or newer (snakemake 9 needs it)" >&2
    echo "  install one and name it: make PYTHON=python3.12 …" >&2
    exit 3
fi
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
echo "installing $lock into $venv …"
# Most modules are never imported, and compiling all takes two fifths of the time. Python compiles and caches what it imports,
# unless that is disabled. Then every process would compile TVM again: 3 s.
compile=--no-compile
[ -z "${PYTHONDONTWRITEBYTECODE:-}" ] || compile=--compile
# PyPI's torch for Linux is a CUDA build. If pip finds the CPU build (its hash is in the lock), it is installed first.
cpu=$(mktemp)
trap 'rm -f "$cpu"' EXIT
sed -n -e '/^torch==/,/[^\\]$/p' "$lock" | sed 's/^\(torch==[^ ]*\)/\1+cpu/' > "$cpu"
"$venv/bin/python" -m pip install -qq --disable-pip-version-check --no-deps "$compile" --require-hashes -r "$cpu" 2>/dev/null || true
# The lock is complete, so nothing is resolved; --no-deps also keeps out the CUDA libraries that PyPI's torch names.
"$venv/bin/python" -m pip install -qq --disable-pip-version-check --no-deps "$compile" --require-hashes -r "$lock"
if ! "$venv/bin/python" -c 'import torch' 2>/dev/null; then
    echo "note: this torch is a CUDA build; fetching the libraries it needs (several GB)." >&2
    echo "  To avoid that, point pip at CPU builds (PIP_EXTRA_INDEX_URL, see docs/getting-started/install.md) and run again." >&2
    "$venv/bin/python" -m pip install -qq --disable-pip-version-check torch==2.13.0
fi
"$venv/bin/python" -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation --editable .
