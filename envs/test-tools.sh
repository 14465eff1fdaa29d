#!/bin/sh
# Install tools that some tests need and this machine lacks: test-tools.sh VENV
#
# Debian packages (with sudo if the user is not root), Snakemake's plugins for clusters, on x86-64 Intel's OpenCL
# for CPUs (275 MB, under Intel's licence; see intel-opencl.sh), and trained models of Python packages (9 MB; see published.sh).
# VENV already has the packages of test.lock.
set -eu
venv=$1
here=$(dirname "$0")

missing=$(python3 "$here/../tests/requirements.py")
if [ -n "$missing" ]; then
    sudo=
    [ "$(id -u)" = 0 ] || sudo=sudo
    echo "installing $missing …"
    $sudo apt-get update -qq
    # shellcheck disable=SC2086  # several words
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
fi
"$here/cluster.sh" "$venv/bin/python" "$venv/cluster"
"$here/published.sh" "$venv/bin/python" "$venv/published"
[ "$(uname -sm)" != "Linux x86_64" ] || "$here/intel-opencl.sh" "$venv/bin/python" "$here/../.venv-intel-opencl"
