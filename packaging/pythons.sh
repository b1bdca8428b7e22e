#!/bin/sh
# Each Python of this machine for which there is to be a wheel, one a minor version: from PATH, from
# PYTHONS_IN (folders with a bin/ each), and from pyenv. `make wheels` asks.
set -eu
unset PYTHONPATH
folders="${PYTHONS_IN:-} ${PYENV_ROOT:-$HOME/.pyenv}/versions/*"
for minor in 10 11 12 13 14; do
    # shellcheck disable=SC2086  # a pattern
    for each in "$(command -v python3.$minor || true)" $(ls -d $folders 2>/dev/null | sed "s|$|/bin/python3.$minor|"); do
        [ -x "$each" ] || continue
        # that can make environments; where it really is, behind what only calls it
        "$each" -c 'import ensurepip, sys, venv; print(sys.executable)' 2>/dev/null || continue
        break
    done
done
