# The door: thin lines over Meson. Nobody needs to know Meson to build, try or test gpuscope.
#
#   make            build/src/gpuscope, the program, and the libraries that trace --inside loads
#   make demo       install what is missing, build, trace a real workload, leave demo.pftrace
#   make install    install it under PREFIX (/usr/local), below DESTDIR: program, man pages, completion, units,
#                   Slurm's scripts, dashboards, rules; commented configurations in /etc/gpuscope
#   make uninstall  remove what the last `make install` of this folder installed
#   make check      install what is missing, build everything, run all tests (as root: with probes)
#   make check-fast units, format, words, includes and ceilings alone: what to run before each commit
#   make hooks      have git check the form of a commit's subject, and the format of its C files
#   make tidy       clang-tidy on the C files that are changed since main (FILES=..., SINCE=COMMIT)
#   make tidy-all   clang-tidy on all C files, some 20 minutes on two processors
#   make tests      build the tests and benchmarks too
#   make unit       run the tests that need no root
#   make accuracy   each figure beside an independent source of the same run, as a table (as root);
#                   WRITE=doc/accuracy.md writes it too
#   make verdicts   run programs whose troubles are known and compare the verdicts of trace (as root)
#   make job-verdicts   69 jobs, each made to be short of one thing (15 are a held set, labelled
#                   before their first run), and what was said of them
#                   (as root, minutes); SPIN=6: beside so many other programs
#   make release    build-release/src/gpuscope: one file that runs on any newer glibc machine
#   make sbom       its bill of materials, build-release/gpuscope.spdx.json (SPDX), and the licenses of what is
#                   linked in, build-release/LICENSES.txt; part of release
#   make tarball    build/gpuscope-VERSION-x86_64.tar.xz: that file, man pages, units and install.sh
#   make deb, rpm   packages for Debian in build/deb, for Fedora and others in build/rpm
#   make packages-check   install, use, upgrade and remove packages and tarball in clean roots of Debian (as root)
#   make reproducible     build twice, in different folders, and compare what is installed
#   make help       these lines
BUILD ?= build
PROGRAM = src/gpuscope src/companion/calls/libgpuscope_companion.so src/companion/gpu/libgpuscope_companion_gpu.so \
          src/companion/nccl/libgpuscope_companion_nccl.so src/companion/ops/libgpuscope_companion_ops.so \
          src/companion/python/libgpuscope_companion_python.so

all: $(BUILD)/build.ninja
	@ninja -C $(BUILD) $(PROGRAM)

tests: $(BUILD)/build.ninja
	@ninja -C $(BUILD)

$(BUILD)/build.ninja:
	@meson setup $(BUILD) >/dev/null

build-release/build.ninja:
	@meson setup build-release --buildtype=release -Dportable=true -Db_lto=true -Dtests=disabled --strip >/dev/null

deps:
	@tools/deps.sh

deps-check:
	@tools/deps.sh --check

demo: deps
	@$(MAKE) --no-print-directory $(BUILD)/build.ninja
	@ninja -C $(BUILD) $(PROGRAM) tests/fake/demo_train
	@tools/demo.sh $(BUILD)

check: deps-check
	@tools/check.sh

check-fast:
	@CHECK_PARTS="style unit" tools/check.sh

hooks:
	@tools/hooks.sh

tidy: tests
	@tools/tidy.sh $(BUILD) "$(SINCE)" $(FILES)

tidy-all: tests
	@tools/tidy.sh $(BUILD) --all

unit: tests
	@meson test -C $(BUILD) --suite unit --print-errorlogs

asan:
	@tools/asan.sh

release: build-release/build.ninja
	@ninja -C build-release $(PROGRAM)
	@$(MAKE) --no-print-directory sbom
	@ls -l build-release/src/gpuscope

sbom: build-release/build.ninja
	@tools/sbom.py build-release >build-release/gpuscope.spdx.json.new
	@mv build-release/gpuscope.spdx.json.new build-release/gpuscope.spdx.json
	@tools/licenses.py build-release/gpuscope.spdx.json >build-release/LICENSES.txt.new
	@mv build-release/LICENSES.txt.new build-release/LICENSES.txt

tarball: release
	@ninja -C build-release
	@tools/tarball.sh build-release build

deb:
	@tools/deb.sh

rpm:
	@tools/rpm.sh

packages-check: tests
	@tests/packages/check.sh $(BUILD)

reproducible:
	@tools/reproducible.sh

tsan:
	@tools/tsan.sh

fuzz:
	@tools/fuzz.sh

fuzz-coverage:
	@tools/fuzz-coverage.sh

accuracy: tests
	@$(firstword $(wildcard /usr/bin/python3) python3) tests/accuracy/accuracy.py $(BUILD)/src/gpuscope $(BUILD)/tests/fake $(if $(WRITE),--write $(WRITE)) $(LAYERS)

verdicts: tests
	@$(firstword $(wildcard /usr/bin/python3) python3) tests/verdicts/run.py $(BUILD)/src/gpuscope $(BUILD)/tests --write doc/verdicts.md

job-verdicts: all
	@$(firstword $(wildcard /usr/bin/python3) python3) tests/work/jobs/jobs.py $(BUILD)/src/gpuscope --spin $(or $(SPIN),0)

bench: tests
	@bench/run.sh $(BUILD)

bench-attacks: all
	@python3 bench/attacks.py $(BUILD)/src/gpuscope

bench-others: tests
	@python3 bench/others.py $(BUILD)

bench-detection: tests
	@bench/detection/run.sh $(BUILD) $(WRITE)

bench-cluster: tests
	@python3 bench/cluster.py $(BUILD)/src/gpuscope $(BUILD)/bench/cluster --until-it-breaks

format:
	@git ls-files '*.c' '*.h' | xargs clang-format -i

# The prefix is part of what is installed (units name the program), so it is set before the build.
install: $(BUILD)/build.ninja
	@tools/install.sh $(BUILD) "$(PREFIX)" "$(DESTDIR)"

uninstall: $(BUILD)/build.ninja
	@tools/uninstall.sh $(BUILD) "$(DESTDIR)"

help:
	@sed -n '2,/^BUILD/{s/^# \{0,1\}//;/^BUILD/d;p}' Makefile

clean:
	rm -rf build build-asan build-release build-fuzz-coverage build-tsan build-without-gswarm build-recipes

.PHONY: tarball deb rpm packages-check reproducible accuracy job-verdicts verdicts all tests help uninstall deps deps-check demo check check-fast hooks tidy tidy-all unit asan tsan release sbom fuzz fuzz-coverage bench bench-attacks bench-cluster bench-detection bench-others format install clean
