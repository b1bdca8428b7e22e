#!/bin/sh
# dist/SHA256SUMS: of all that is in dist/.
set -eu
cd dist
rm -f SHA256SUMS
sums=$(LC_ALL=C sha256sum -- *)
echo "$sums" | tee SHA256SUMS
