#!/bin/sh
# A wheel for arm64 in dist/, made on another processor: Debian's cross compiler, and the headers and
# settings of Debian's own Python for arm64, which debootstrap unpacks into build/arm64 (that wants root).
# `make wheel-arm64` calls it. What it made was run by qemu: tests/installation/test_wheel_arm64.py
set -eu
umask 022
unset PYTHONPATH CC CXX CFLAGS CXXFLAGS LDFLAGS LDSHARED AR
. /etc/os-release
for tool in aarch64-linux-gnu-g++ debootstrap dpkg-deb; do
    command -v $tool >/dev/null ||
        { echo "make wheel-arm64: wanted $tool (g++-aarch64-linux-gnu, debootstrap)"; exit 1; }
done
python=$(readlink -f /usr/bin/python3)
minor=$("$python" -c 'import sys; print("3.%d" % sys.version_info[1])')

# their Python: unpacked, never run
tree=$PWD/build/arm64
if [ ! -e "$tree/unpacked" ]; then
    rm -rf "$tree"
    debootstrap --arch=arm64 --foreign --variant=minbase --include=python3-dev \
        "$VERSION_CODENAME" "$tree" >/dev/null
    for each in "$tree"/var/cache/apt/archives/*.deb; do
        dpkg-deb --extract "$each" "$tree"
    done
    touch "$tree/unpacked"
fi

made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
tar -xzf "$(ls dist/*.tar.gz)" -C "$made"
"$python" -m venv "$made/env"
cd "$made"/appliance_log-*/
"$made/env/bin/python" -c 'import tomllib
print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], "build", sep="\n")' |
    "$made/env/bin/pip" install --quiet --disable-pip-version-check --requirement /dev/stdin
mkdir "$made/target"
cp "$tree/usr/lib/python$minor/_sysconfigdata__aarch64-linux-gnu.py" "$made/target/"
echo "compiling for Python $minor on arm64, some minutes"
# compiler, suffixes and tags come from the settings of the other Python; what is set here for this
# processor (make exports CXX) would win over them
_PYTHON_HOST_PLATFORM=linux-aarch64 _PYTHON_SYSCONFIGDATA_NAME=_sysconfigdata__aarch64-linux-gnu \
    PYTHONPATH="$made/target" CPPFLAGS="-idirafter $tree/usr/include" \
    "$made/env/bin/python" -m build --wheel --no-isolation --outdir "$made/raw" . >"$made/log" 2>&1 ||
    { tail -n 40 "$made/log"; exit 1; }
cd "$OLDPWD"
# a name with aarch64 proves nothing
"$python" - "$made"/raw/*.whl <<'END'
import sys, zipfile

AARCH64 = b"\xb7\x00"  # e_machine, at 18
with zipfile.ZipFile(sys.argv[1]) as wheel:
    modules = [each for each in wheel.namelist() if each.endswith(".so")]
    others = [each for each in modules if wheel.read(each)[18:20] != AARCH64]
if others or not modules:
    sys.exit(f"make wheel-arm64: compiled for another processor: {', '.join(others[:3]) or 'nothing'}")
END
PATH="$PWD/build/tools/bin:$PATH" build/tools/bin/auditwheel repair --wheel-dir "$made/named" \
    "$made"/raw/*.whl
rm -f dist/appliance_log-*aarch64*
mv "$made"/named/*.whl dist/
packaging/hashes.sh
