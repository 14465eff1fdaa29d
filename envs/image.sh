#!/bin/sh
# The install steps of the image, which Containerfile runs one by one: image.sh system | tvmake DIRECTORY | cuda | android
#
#   system    compilers and Python of Debian 12
#   tvmake    the wheel of tvmake in DIRECTORY and the libraries of its extras, from DIRECTORY/image.lock, into /opt/tvmake
#   cuda      NVRTC, which compiles CUDA kernels; the driver comes from the host
#   android   zig, which links packages for Android and other Linux systems
#
# Needs root, in a bare Debian 12; tests/packaging/test_image.py runs it in one. PyPI's torch for Linux is a CUDA build of several GB,
# so PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS names a place with the CPU build, whose hash is in the lock.
set -eu
home=/opt/tvmake
cuda='cuda-bindings|cuda-pathfinder|nvidia-.*'
pip="$home/bin/python -m pip"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore DEBIAN_FRONTEND=noninteractive

# The entries of a lock whose names match a pattern.
entries() { sed -n -E "/^($1)==/,/[^\\\\]$/p" "$home/image.lock"; }

install() { # install NAMES
    entries "$1" > "$home/part.lock"
    $pip install -qq --no-deps --no-compile --require-hashes -r "$home/part.lock"
    rm "$home/part.lock"
}

case "${1-}" in
system)
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends ca-certificates g++ git python3 python3-venv > /dev/null
    rm -rf /var/lib/apt/lists/*
    ;;
tvmake)
    python3 -m venv "$home"
    cp "$2/image.lock" "$home"
    grep -q '^torch==' "$home/image.lock"
    sed 's/^\(torch==[^ ]*\)/\1+cpu/' "$home/image.lock" > "$home/cpu.lock"
    mv "$home/cpu.lock" "$home/image.lock"
    names=$(sed -n 's/^\([A-Za-z0-9._-]*\)==.*/\1/p' "$home/image.lock" | grep -v -x -E "ziglang|$cuda" | tr '\n' '|')
    install "${names%|}"
    $pip install -qq --no-deps --no-index "$2"/tvmake-*.whl
    ln -s "$home/bin/tvmake" "$home/bin/snakemake" /usr/local/bin/
    tvmake --version
    ;;
cuda)
    install "$cuda"
    # TVM looks for headers where a toolkit has them.
    toolkit=$(echo "$home"/lib/python3*/site-packages/nvidia/cu13)
    mkdir -p "$toolkit/targets/$(uname -m)-linux"
    ln -s ../../include "$toolkit/targets/$(uname -m)-linux/include"
    ln -s "$toolkit" /usr/local/cuda
    ;;
android) install ziglang ;;
*)
    sed -n 2,11p "$0" >&2
    exit 2
    ;;
esac
