# make serve and make test are all that a fresh clone needs; everything else is for working on it.
PYTHON ?= python3
ARGS ?=
# Test processes side by side. Most tests wait, for a disk, a timer or a JVM that starts.
JOBS ?= $(shell expr $$(nproc) \* 2 + 1)
# A process that dies ends the run: the others would wait for its files for ever.
SIDE_BY_SIDE = -n $(JOBS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0
# Those that have such tests; to collect all others takes as long as these run
ALONE = $(shell grep -rl --include='test_*.py' 'mark\.alone' tests)
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check
CORE := setup.py $(shell find appliance -name '*.pyx' -o -name '*.pxd' -o -name '*.h')
export CXX ?= c++
# The tests start hundreds of processes: where this is set, each would compile the package's 300 modules.
unexport PYTHONDONTWRITEBYTECODE

.NOTPARALLEL:
.PHONY: help serve test test-long lint bench clean build machine sdist wheel wheels wheel-arm64 deb image

help:
	@echo "make serve   build, and start a broker on embedded defaults (ARGS='--data-dir D' to change)"
	@echo "make test    bring what the tests need, build, and run them (ARGS='-k name' for some)"
	@echo "make test-long  before a release: all tests in long forms, the sanitizers, the fuzzer; hours"
	@echo "make lint    ruff, oxfmt, cython-lint, mypy, and the stubs of the compiled modules"
	@echo "make bench   beside Apache Kafka, an hour (ARGS=--quick: 15 minutes), on an idle machine"
	@echo "make sdist   the source distribution, in dist/"
	@echo "make wheel   a wheel of it, its bill of materials and hashes (PYTHONS='python3.10 python3.12')"
	@echo "make wheels  the same for each Python that is found, from 3.10 to 3.14"
	@echo "make wheel-arm64  one for arm64 and Debian's Python, by a cross compiler"
	@echo "make deb     a Debian package for the Python of this Debian, from its wheel"
	@echo "make image   an image for containers, from the Debian package"
	@echo "make build   the virtual environment and the compiled modules, nothing more"
	@echo "make clean   remove all that make built; data directories stay"

serve: build
	@exec $(BIN)/appliance serve $(ARGS)

# The gate: one of each kind. What repeats it has the mark `release`, and is for `test-long`; ARGS run
# what they name. A file's tests stay in one process, and the longest files come first, by their mark or by name. Those
# that measure times have the machine for themselves.
test: machine .venv/dev build
ifdef ARGS
	$(BIN)/python -m pytest $(ARGS)
else
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not alone and not release"
	$(BIN)/python -m pytest -m "alone and not release" $(ALONE)
endif

# Before a release: all tests, those that have the mark `release` too, in their long forms, then the
# sanitizers' builds and the fuzzer. It takes hours, and makes file systems, which wants root.
LONG := CRASH_NIGHTLY=1 TRANSACTION_KILLS=50 MIRROR_KILLS=30 STREAM_KILLS=10 TORTURE_TIMES=60 STOP_MOMENTS=30 \
	MODEL_EXAMPLES=5000 THREADS_S=60
test-long: test
	$(LONG) $(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not alone"
	$(LONG) $(BIN)/python -m pytest -m "alone" $(ALONE)
	$(BIN)/python tests/sanitizers.py address thread
	$(BIN)/python -m tests.hostile.fuzz --minutes 30
	$(BIN)/python -m tests.hostile.fuzz --minutes 30 --built --scene before
	for scene in few many tls; do $(BIN)/python -m tests.hostile.fuzz --minutes 10 --built --scene $$scene || exit 1; done

# cython-lint starts pycodestyle by name. Both take as long as mypy, which runs beside them.
COMPILED_LINT := PATH="$(BIN):$$PATH" cython-lint appliance && \
	$(BIN)/python -m pytest -q tests/house/test_stubs.py

lint: .venv/dev build
	$(BIN)/ruff check .
	$(BIN)/oxfmt --check appliance/static
	$(BIN)/mypy & types=$$!; $(COMPILED_LINT); compiled=$$?; wait $$types && exit $$compiled

bench: .venv/dev build
	$(BIN)/python -m bench run $(ARGS)

build: .venv/built

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis tests/.cache
	find appliance -name '*.so' -delete
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Stamps: each step runs again only when what it was made from is newer, so a second run needs no
# network. The build requirements stay in the environment for the same reason.
machine:
	@tests/setup.sh

.venv/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
		|| { echo "make: wanted Python 3.10 or newer; name it with PYTHON=python3.x"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null \
		|| { echo "make: Python's venv module is missing; install python3-venv"; exit 1; }
	@command -v $(CXX) >/dev/null || { echo "make: no C++ compiler; install g++ or clang"; exit 1; }
	$(PYTHON) -m venv .venv
	sed -n 's/^requires = //p' pyproject.toml | grep -o '"[^"]*"' | xargs $(PIP)
	@touch $@

# Installing compiles as well, always everything: so it is done once, and `built` compiles only what
# changed after it. What others wrote comes beside it, since pip has one process; with what the extra
# names, where `dev` is wanted as well.
PROJECT := import importlib.util, sys; \
	has_one = importlib.util.find_spec("tomllib"); \
	toml = importlib.import_module("tomllib" if has_one else "pip._vendor.tomli"); \
	project = toml.load(open("pyproject.toml", "rb"))["project"]; \
	extras = (project["optional-dependencies"][name] for name in sys.argv[1:]);
REQUIRED := $(PROJECT) print(*project["dependencies"], *sum(extras, []), sep="\n")
FETCH = $(BIN)/python -c '$(REQUIRED)' $(EXTRA) | $(PIP) --requirement /dev/stdin
.venv/dev: EXTRA := dev
.venv/installed: .venv/python pyproject.toml
	@echo "installing, which compiles the core: a minute or two"
	@$(FETCH) & fetched=$$!; $(PIP) --no-build-isolation --no-deps --editable .; installed=$$?; \
		wait $$fetched && exit $$installed
	@echo $(EXTRA) > $@

.venv/dev: .venv/installed
	@grep -q dev .venv/installed || { $(FETCH); }
	@touch $@

.venv/built: .venv/installed $(CORE)
	@if [ -n "$$(find $(CORE) -newer .venv/installed)" ]; then \
		set -x; $(BIN)/python setup.py --quiet build_ext --inplace; fi
	@touch $@

# Packages, in dist/. The same commit makes the same bytes: what has a time has that of the commit.
PYTHONS ?= $(PYTHON)
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)
PACKAGING := $(PROJECT) print(*sum(extras, []), sep="\n")
build/tools/made: pyproject.toml
	@$(PYTHON) -c 'import venv, ensurepip' || { echo "make: install python3-venv"; exit 1; }
	$(PYTHON) -m venv build/tools
	build/tools/bin/python -c '$(PACKAGING)' package > build/tools/wanted
	build/tools/bin/pip install --quiet --requirement=build/tools/wanted
	@touch $@

sdist: build/tools/made
	@packaging/sdist.sh

wheel: sdist
	@packaging/wheel.sh $(PYTHONS)

wheels: sdist
	@packaging/wheel.sh $$(packaging/pythons.sh)

wheel-arm64: sdist
	@packaging/wheel_arm64.sh

# Of the wheel in dist/ for this Debian's Python, which is built if it is not there or older
DEBIAN = cp3$(shell /usr/bin/python3 -c 'import sys; print(sys.version_info[1])')
SOURCES = appliance spark packaging/systemd setup.py pyproject.toml
deb: build/tools/made
	@for each in dpkg-shlibdeps dpkg-deb $(CXX); do command -v $$each >/dev/null || \
		{ echo "make deb: wanted $$each: apt install dpkg-dev g++ python3-dev"; exit 1; }; done
	@wheel=$$(ls dist/*-$(DEBIAN)-*.whl 2>/dev/null); \
	if [ -z "$$wheel" ] || [ -n "$$(find $(SOURCES) -newer "$$wheel" -type f ! -name '*.so' \
		! -name '*.pyc')" ]; then $(MAKE) wheel PYTHONS=/usr/bin/python3; fi
	@packaging/deb.sh

image: deb
	@packaging/image.sh
