#!/bin/sh
# Install the Snakemake plugins that tests/cluster needs into a directory of their own: cluster.sh PYTHON DIRECTORY
#
# Snakemake imports every plugin that it finds each time it starts, so other tests do not see these. The tests look in
# the directory `cluster` of the virtual environment.
set -eu
python=$1 directory=$2
lock=$(dirname "$0")/cluster.lock

if cmp -s "$lock" "$directory/cluster.lock"; then
    exit 0
fi
rm -rf "$directory"
echo "installing $lock into $directory …"
"$python" -m pip install -qq --disable-pip-version-check --no-deps --no-compile --require-hashes --target "$directory" -r "$lock"
# Last: its presence shows that the directory is complete.
cp "$lock" "$directory/cluster.lock"
