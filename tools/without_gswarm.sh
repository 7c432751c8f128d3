#!/usr/bin/env bash
# The program as -Dgswarm=false builds it, and a head of it. Few objects differ from those of the plain
# build, so the first time its folder is copied: after `make tests` this takes seconds.
#   tools/without_gswarm.sh    --build: only builds it
set -euo pipefail
cd "$(dirname "$0")/.."

tree=build-without-gswarm
if [ ! -e $tree/configured ]; then
	rm -rf $tree
	again=()
	[ ! -e build/build.ninja ] || { cp -a build $tree && again=(--reconfigure); }
	meson setup $tree "${again[@]}" -Dgswarm=false -Dtests=disabled
	touch $tree/configured
fi
ninja -C $tree src/gpuscope
[ "${1:-}" != --build ] || exit 0
python=/usr/bin/python3
[ -x $python ] || python=python3
$python tests/e2e/without_gswarm.py $tree/src/gpuscope build/tests/fake
