#!/bin/sh
# Install Intel's OpenCL for CPUs into a separate directory: intel-opencl.sh PYTHON DIRECTORY
#
# It is an OpenCL device with float16, which PoCL's is not; tests/networks runs float16 packages on it.
# OCL_ICD_VENDORS=DIRECTORY/intel.icd lets a process see only this device. 275 MB come from the package index and take
# 700 MB, under Intel's End User License Agreement for Developer Tools (DIRECTORY/share/doc).
set -eu
python=$1 directory=$2
lock=$(dirname "$0")/intel-opencl.lock

case $(uname -sm) in
"Linux x86_64") ;;
*)
    echo "error: Intel's OpenCL for CPUs is for Linux on x86-64, and this is $(uname -sm)" >&2
    exit 3
    ;;
esac
if [ -e "$directory/intel.icd" ] && cmp -s "$lock" "$directory/intel-opencl.lock"; then
    exit 0
fi
rm -rf "$directory"
echo "installing $lock into $directory …"
"$python" -m pip install -qq --disable-pip-version-check --no-deps --no-compile --require-hashes --only-binary=:all: \
    --prefix "$directory" -r "$lock"
cp "$lock" "$directory/intel-opencl.lock"
# Last: its presence shows that the directory is complete.
printf '%s\n' "$(cd "$directory" && pwd)/lib/libintelocl.so" > "$directory/intel.icd"
