#!/usr/bin/env bash
# tools/install.sh BUILD [PREFIX [DESTDIR]]: builds what is installed, and nothing else, and installs it.
# An empty PREFIX keeps that of the build folder (/usr/local at first). `make install` calls it.
set -euo pipefail

build=$1 prefix=${2:-} destdir=${3:-}

# The prefix stands in some of the files (units, Slurm's scripts), so it is set before the build.
[ -z "$prefix" ] || meson configure "$build" -Dprefix="$prefix"
mapfile -t targets < <(python3 - "$build" <<'PY'
import json, os, subprocess, sys
build = os.path.realpath(sys.argv[1])
# Files that meson itself writes, as units, are installed too and no targets.
for target in json.loads(subprocess.check_output(['meson', 'introspect', build, '--targets'])):
    for path in target['filename'] if target['installed'] else []:
        print(os.path.relpath(path, build))
PY
)
ninja -C "$build" "${targets[@]}"
DESTDIR=$destdir meson install -C "$build" --no-rebuild --strip --quiet
where=$(meson introspect "$build" --buildoptions | python3 -c '
import json, sys
print(next(o["value"] for o in json.load(sys.stdin) if o["name"] == "prefix"))')
echo "installed in $destdir$where; to remove it: make uninstall"
