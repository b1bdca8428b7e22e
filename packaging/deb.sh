#!/bin/sh
# A Debian package in dist/ for the Python of this Debian: the wheel of dist/ in an environment of its
# own, with all that it imports, compiled. The box needs no compiler and no network. `make deb` calls it.
set -eu
umask 022
unset PYTHONPATH
export LC_ALL=C PYTHONHASHSEED=0
python=$(readlink -f /usr/bin/python3)
minor=$("$python" -c 'import sys; print("3.%d" % sys.version_info[1])')
next=$("$python" -c 'import sys; print("3.%d" % (sys.version_info[1] + 1))')
wheel=$(ls dist/appliance_log-*-cp"$(echo "$minor" | tr -d .)"-*"$(uname -m)".whl)
version=$(basename "$wheel" | cut -d- -f2)${DEB_REVISION:+-$DEB_REVISION}
architecture=$(dpkg --print-architecture)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
chmod 755 "$tree"
home=$tree/usr/lib/appliance

# its environment, as it will be at /usr/lib/appliance
"$python" -m venv --without-pip "$home"
build/tools/bin/pip --python "$home/bin/python" install --quiet --disable-pip-version-check \
    --no-compile "$wheel"
# where the wheel was when it was installed is no news to anybody
find "$home/lib" -name direct_url.json -delete
packaging/materials.sh "$home/bin/python" "$tree/materials.json"
find "$home/bin" -type f ! -name appliance -delete
find "$home/lib" -name __pycache__ -prune -exec rm -rf {} +
ln -sf "$python" "$home/bin/python3"
ln -sf python3 "$home/bin/python"
rm -f "$home/bin/python$minor"
printf 'home = /usr/bin\ninclude-system-site-packages = false\nversion = %s\n' "$minor" \
    >"$home/pyvenv.cfg"
sed -i '1s|.*|#!/usr/lib/appliance/bin/python3|' "$home/bin/appliance"
# by content, not by time: what is unpacked is never compiled again; by one process, since what it
# compiled before is seen in the bytes
"$python" -m compileall -q --invalidation-mode unchecked-hash -s "$tree" -p / "$home/lib"
find "$home/lib" -path '*.dist-info/RECORD' -exec sed -i '/^\.\.\//d; /__pycache__/d; /direct_url.json/d' {} +

# what people and their tools look for
mkdir -p "$tree/usr/bin" "$tree/usr/share/doc/appliance" "$tree/usr/share/appliance" \
    "$tree/usr/share/bash-completion/completions" "$tree/usr/share/zsh/vendor-completions" \
    "$tree/usr/share/fish/vendor_completions.d" "$tree/DEBIAN"
ln -s ../lib/appliance/bin/appliance "$tree/usr/bin/appliance"
cp README.md docs/*.md "$tree/usr/share/doc/appliance/"
gzip -9nc CHANGELOG.md >"$tree/usr/share/doc/appliance/changelog.gz"
cp packaging/debian/copyright "$tree/usr/share/doc/appliance/copyright"
cp docs/monitoring/* "$tree/usr/share/appliance/"
mv "$tree/materials.json" "$tree/usr/share/appliance/materials.cdx.json"
# elsewhere: here Python would find the clone's own modules, which nobody may have compiled
packaged() { (cd / && "$home/bin/python3" "$@"); }
packaged -m appliance completion bash \
    >"$tree/usr/share/bash-completion/completions/appliance"
packaged -m appliance completion zsh >"$tree/usr/share/zsh/vendor-completions/_appliance"
packaged -m appliance completion fish >"$tree/usr/share/fish/vendor_completions.d/appliance.fish"

# the package itself
mkdir -p "$tree/debian"
printf 'Source: appliance\n\nPackage: appliance\nArchitecture: any\n' >"$tree/debian/control"
libraries=$(cd "$tree" && find usr/lib -name '*.so*' -type f -print0 |
    xargs -0 dpkg-shlibdeps -O --ignore-missing-info 2>/dev/null | sed 's/^shlibs:Depends=//')
rm -rf "$tree/debian"
# as Debian counts: no file system's own blocks, and one for each folder and link
size=$(find "$tree/usr" \( -type f -printf '%s\n' \) -o -printf '1024\n' |
    awk '{ sum += int(($1 + 1023) / 1024) } END { print sum }')
sed -e "s/@VERSION@/$version/; s/@ARCHITECTURE@/$architecture/; s/@SIZE@/$size/" \
    -e "s/@PYTHON@/python3 (>= $minor~), python3 (<< $next~)/; s/@LIBRARIES@/$libraries/" \
    packaging/debian/control >"$tree/DEBIAN/control"
formats='from appliance.data_dir.data_format import KNOWN_NEEDS, OURS; '
major=$(packaged -c "$formats print(OURS.major)")
needs=$(packaged -c "$formats print(*sorted(KNOWN_NEEDS))")
for each in preinst postinst prerm postrm; do
    sed -e "s/@MAJOR@/$major/; s/@NEEDS@/$needs/; s/@VERSION@/$version/" \
        "packaging/debian/$each" >"$tree/DEBIAN/$each"
    chmod 755 "$tree/DEBIAN/$each"
done
(cd "$tree" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
chmod -R u=rwX,go=rX "$tree"
dpkg-deb --root-owner-group --build "$tree" "dist/appliance_${version}_$architecture.deb"
packaging/hashes.sh
