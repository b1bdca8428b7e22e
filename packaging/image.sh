#!/bin/sh
# The image of a container from the Debian package in dist/, by podman or docker. `make image` calls it.
set -eu
package=$(cd dist && ls appliance_*_"$(dpkg --print-architecture)".deb)
tool=$(command -v podman || command -v docker) ||
    { echo "make image: wanted podman or docker"; exit 1; }
"$tool" build --file packaging/Containerfile --build-arg "PACKAGE=$package" --tag appliance .
