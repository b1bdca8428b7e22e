#!/bin/sh
# The bill of materials (CycloneDX) of what is installed for the Python $1, into the file $2.
set -eu
build/tools/bin/cyclonedx-py environment --output-reproducible --pyproject pyproject.toml \
    --output-file "$2" "$1"
