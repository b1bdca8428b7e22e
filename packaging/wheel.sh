#!/bin/sh
# Wheels in dist/, one for each Python that is named: built from the sdist, named after the glibc that
# its symbols want (manylinux), installed into an environment of its own, and that environment as a
# bill of materials. `make wheel` calls it.
set -eu
umask 022
unset PYTHONPATH
sdist=$(ls dist/*.tar.gz)
for python in "$@"; do
    made=$(mktemp -d)
    trap 'rm -rf "$made"' EXIT
    tar -xzf "$sdist" -C "$made"
    "$python" -m venv "$made/env"
    echo "compiling for $("$python" --version), some minutes"
    "$made/env/bin/pip" wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$made/raw" \
        "$made"/appliance_log-*/
    PATH="$PWD/build/tools/bin:$PATH" build/tools/bin/auditwheel repair --wheel-dir "$made/named" \
        "$made"/raw/*.whl
    "$made/env/bin/pip" install --quiet --disable-pip-version-check "$made"/named/*.whl
    (cd / && "$made/env/bin/appliance" --version)
    find "$made/env/lib" -name direct_url.json -delete
    name=$(basename "$made"/named/*.whl .whl)
    tags=$(echo "$name" | cut -d- -f3,4)
    rm -f dist/appliance_log-*-"$tags"-*"$(uname -m)".*
    mv "$made"/named/*.whl dist/
    packaging/materials.sh "$made/env/bin/python" "dist/$name.cdx.json"
    rm -rf "$made"
done
packaging/hashes.sh
