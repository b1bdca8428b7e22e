#!/bin/sh
# dist/SHA256SUMS: of all that is in dist/.
set -eu
cd dist
rm -f SHA256SUMS
sha256sum -- * | tee SHA256SUMS
