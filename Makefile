# The door: thin lines over Meson. Nobody needs to know Meson to build, try or test gpuscope.
#
#   make          build/gpuscope and the tests
#   make demo     install what is missing, build, trace a real workload, leave demo.pftrace
#   make check    install what is missing, build, run all tests (root: also those of real probes)
#   make release  build-release/gpuscope: one file that runs on any newer glibc machine
BUILD ?= build

all: $(BUILD)/build.ninja
	@ninja -C $(BUILD)

$(BUILD)/build.ninja:
	@meson setup $(BUILD) >/dev/null

build-asan/build.ninja:
	@meson setup build-asan -Db_sanitize=address,undefined -Db_lundef=false >/dev/null

build-release/build.ninja:
	@meson setup build-release --buildtype=release -Dportable=true -Db_lto=true -Dtests=disabled --strip >/dev/null

deps:
	@tools/deps.sh

deps-check:
	@tools/deps.sh --check

demo: deps
	@$(MAKE) --no-print-directory all
	@tools/demo.sh $(BUILD)

check: deps-check
	@tools/check.sh

unit: all
	@meson test -C $(BUILD) --suite unit --print-errorlogs

asan: build-asan/build.ninja
	@ninja -C build-asan

release: build-release/build.ninja
	@ninja -C build-release
	@ls -l build-release/src/gpuscope

fuzz:
	@tools/fuzz.sh

bench: all
	@bench/run.sh $(BUILD)

bench-cluster: all
	@python3 bench/cluster.py $(BUILD)/src/gpuscope $(BUILD)/bench/cluster --until-it-breaks

format:
	@git ls-files '*.c' '*.h' | xargs clang-format -i

install: release
	@meson install -C build-release

clean:
	rm -rf build build-asan build-release build-fuzz

.PHONY: all deps deps-check demo check unit asan release fuzz bench bench-cluster format install clean
