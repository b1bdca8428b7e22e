#!/bin/sh
# Brings what the tests need beyond PyPI, and does nothing (no network either) when it is all there:
#   a C++ compiler, Python's headers and venv   the compiled core and its environment
#   a JDK of Java 17+ and Maven                 Apache Kafka's own client and tools, for our files
#                                               and for the running broker
#   kcat                                        a client of librdkafka, in an old release of it
#   Chromium                                    the console is tested in a real browser; its shell
#                                               without a window takes half the time
#   mkfs.ext4, mkfs.xfs, mkfs.btrfs, FUSE 3     crash and full-disk tests spoil file systems
set -eu
PATH="$PATH:/usr/sbin:/sbin"

python3_has() { python3 -c "$1" 2>/dev/null; }
headers='import os, sysconfig; os.stat(os.path.join(sysconfig.get_path("include"), "Python.h"))'
jdk_is_new() {
    [ "$(java -version 2>&1 | sed -n '1s/.*version "\([0-9]*\).*/\1/p')" -ge 17 ] 2>/dev/null &&
        [ -x "$(dirname "$(readlink -f "$(command -v java)")")/javac" ]
}

has_browser() {
    for each in chromium-headless-shell chromium chromium-browser; do
        command -v "$each" >/dev/null && return
    done
    return 1
}

# In the package manager's names: compiler, headers, venv, jdk, maven, e2fsprogs, kcat, chromium,
# xfsprogs, btrfs-progs, fuse3
missing() {
    command -v "${CXX:-c++}" >/dev/null || echo "$1"
    python3_has "$headers" || echo "$2"
    python3_has 'import venv, ensurepip' || echo "$3"
    jdk_is_new || echo "$4"
    command -v mvn >/dev/null || echo "$5"
    command -v mkfs.ext4 >/dev/null || echo "$6"
    command -v kcat >/dev/null || echo "$7"
    has_browser || echo "$8"
    command -v mkfs.xfs >/dev/null || echo "$9"
    command -v mkfs.btrfs >/dev/null || echo "${10}"
    command -v fusermount3 >/dev/null || echo "${11}"
}
missing_debian() {
    missing g++ python3-dev python3-venv "$1" maven e2fsprogs kcat chromium xfsprogs btrfs-progs \
        fuse3
}
missing_fedora() {
    missing gcc-c++ python3-devel python3 java-21-openjdk-devel maven e2fsprogs kcat \
        chromium xfsprogs btrfs-progs fuse3
}

if [ "$(id -u)" = 0 ]; then
    root=
elif sudo -n true 2>/dev/null; then
    root="sudo -n"
else
    root="refused"
fi

# It does the same in half the time, where it is to be had; without it the tests go on.
shell_of_chromium() {
    command -v chromium-headless-shell >/dev/null && return
    command -v apt-get >/dev/null && [ "$root" != refused ] || return 0
    apt-cache show chromium-headless-shell >/dev/null 2>&1 || return 0
    DEBIAN_FRONTEND=noninteractive $root apt-get install -qq -y --no-install-recommends \
        -o Acquire::Retries=0 -o Acquire::http::Timeout=10 chromium-headless-shell \
        >/dev/null 2>&1 || echo "make test: the browser is all of Chromium, not its shell" >&2
}

if [ -z "$(missing_debian java)" ]; then
    shell_of_chromium
    exit 0
elif [ "$root" != refused ] && command -v apt-get >/dev/null; then
    $root apt-get update -qq
    java=$(apt-cache search --names-only '^openjdk-(17|21)-jdk-headless$' | cut -d' ' -f1 | tail -1)
    # shellcheck disable=SC2046  # one word per package
    DEBIAN_FRONTEND=noninteractive $root apt-get install -qq -y --no-install-recommends \
        $(missing_debian "$java") >/dev/null
    shell_of_chromium
elif [ "$root" != refused ] && command -v dnf >/dev/null; then
    # shellcheck disable=SC2046
    $root dnf install -q -y $(missing_fedora)
fi

if [ -n "$(missing_debian java)" ]; then
    echo "make test: please install:" \
        "$(missing 'a C++ compiler,' "Python's headers (python3-dev)," 'python3-venv,' \
            'a JDK of Java 17 or newer,' 'Maven,' 'e2fsprogs,' 'kcat,' 'Chromium,' \
            'xfsprogs,' 'btrfs-progs,' 'FUSE 3,' |
            tr '\n' ' ' | sed 's/, $//')" >&2
    exit 1
fi
