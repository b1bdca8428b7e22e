#!/bin/sh
# The source distribution in dist/: all that a wheel is built from. `make sdist` calls it.
set -eu
umask 022
unset PYTHONPATH
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
build/tools/bin/python -m build --sdist --outdir "$made" . >"$made/log" || { cat "$made/log"; exit 1; }
build/tools/bin/python packaging/normal_sdist.py "$made"/*.tar.gz
mkdir -p dist
rm -f dist/*.tar.gz
mv "$made"/*.tar.gz dist/
packaging/hashes.sh
