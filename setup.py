"""One extension per `_*.pyx`, in whatever room of the package it is.

APPLIANCE_DEBUG=1                    bounds checks, assertions, line tracing
APPLIANCE_SANITIZE=address|thread    for the sanitizer runs
APPLIANCE_MUTANTS=1                  the modules with planted durability bugs, for tests/crash only
APPLIANCE_BUILD_TAG=name             keeps such a build's generated C++ apart from the release's
"""

import os
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

DEBUG = os.environ.get("APPLIANCE_DEBUG") == "1"
SANITIZE = os.environ.get("APPLIANCE_SANITIZE", "")
MUTANTS = os.environ.get("APPLIANCE_MUTANTS") == "1"
TAG = os.environ.get("APPLIANCE_BUILD_TAG", "debug" if DEBUG else "release")

compile_args = ["-std=c++17", "-pthread", "-fno-strict-aliasing", "-fstack-protector-strong"]
link_args = ["-pthread"]
macros = []
if SANITIZE:
    compile_args += [f"-fsanitize={SANITIZE}", "-O1", "-g", "-fno-omit-frame-pointer"]
    link_args += [f"-fsanitize={SANITIZE}"]
elif DEBUG:
    compile_args += ["-O0", "-g"]
else:
    compile_args += ["-O1" if MUTANTS else "-O3", "-g0", "-D_FORTIFY_SOURCE=2"]
    macros += [("NDEBUG", None)]
if DEBUG:
    macros += [("APPLIANCE_DEBUG", "1"), ("CYTHON_TRACE_NOGIL", "0")]
if MUTANTS:
    macros += [("APPLIANCE_MUTANTS", "1")]

directives = {
    "language_level": 3,
    "boundscheck": DEBUG,
    "wraparound": DEBUG,
    "initializedcheck": DEBUG,
    "cdivision": not DEBUG,
    "freethreading_compatible": False,
}


# Of the second that a small module takes to compile, a third are these, which Cython includes.
HEADERS = Path(f"build/cython-{TAG}/headers.h")
INCLUDED = [
    "Python.h", "frameobject.h", "atomic", "cmath", "deque", "map", "memory", "mutex", "stdexcept",
    "string", "string_view", "unordered_map", "vector",
]  # fmt: skip


class ParallelBuild(build_ext):
    def finalize_options(self):
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def build_extensions(self):
        """With the headers compiled once, then: compilers include what is named so in its place."""
        compiled = HEADERS.with_suffix(".h.gch")
        write_headers()
        options = [f"-I{path}" for path in self.compiler.include_dirs]
        options += [f"-D{name}" + (f"={value}" if value else "") for name, value in macros]
        options += [*compile_args, "-x", "c++-header", str(HEADERS), "-o", str(compiled)]
        self.compiler.spawn([*self.compiler.compiler_so_cxx, *options])
        super().build_extensions()
        compiled.unlink(missing_ok=True)


def write_headers():
    lines = ["#define PY_SSIZE_T_CLEAN", *(f"#include <{name}>" for name in INCLUDED)]
    HEADERS.parent.mkdir(parents=True, exist_ok=True)
    HEADERS.write_text("\n".join(lines) + "\n")


sources = sorted(Path("appliance").rglob("_*.pyx"))
if MUTANTS:
    sources = [source for source in sources if "mutant(" in source.read_text()]

# Cython itself sees which modules a changed .pxd is for.
shared_headers = [str(path) for path in Path("appliance").rglob("*.h")]

extensions = [
    Extension(
        ".".join(source.with_suffix("").parts),
        [str(source)],
        language="c++",
        include_dirs=["appliance", "appliance/native"],
        define_macros=macros,
        extra_compile_args=[*compile_args, "-include", str(HEADERS)],
        extra_link_args=link_args,
        depends=shared_headers,
    )
    for source in sources
]

# What every module would otherwise have a copy of: half of all there is to compile.
shared = Extension(
    "appliance._cython",
    ["appliance/_cython.c"],
    define_macros=macros,
    extra_compile_args=[each for each in compile_args if not each.startswith("-std=")],
    extra_link_args=link_args,
)

# To list files and to name requirements nothing need be translated, which takes a minute.
COMPILES_NOTHING = {"sdist", "egg_info", "dist_info"}


def translated():
    return cythonize(
        [shared, *extensions],  # the longest begins first
        shared_utility_qualified_name=shared.name,
        build_dir=f"build/cython-{TAG}",
        compiler_directives=directives,
        nthreads=os.cpu_count(),
    )


setup(
    ext_modules=[] if COMPILES_NOTHING.intersection(sys.argv) else translated(),
    cmdclass={"build_ext": ParallelBuild},
)
