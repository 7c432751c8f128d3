#!/usr/bin/env bash
# Packs a release build as gpuscope-VERSION-x86_64.tar.xz in OUT (BUILD): the program, which needs glibc alone, the libraries that it
# loads into programs, man pages, completion, units, dashboards, rules, Slurm's scripts, install.sh and uninstall.sh, the licenses of
# all that is linked in. `make tarball` calls it.
#
# usage: tools/tarball.sh BUILD [OUT]
set -euo pipefail
cd "$(dirname "$0")/.."

build=$1 out=${2:-$1}
version=$(sed -n "s/^project(.*[ ,]version: '\([^']*\)'.*/\1/p" meson.build)
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date -r meson.build +%s)}
option() {
	meson introspect "$build" --buildoptions | python3 -c 'import json, sys
print(next(o["value"] for o in json.load(sys.stdin) if o["name"] == sys.argv[1]))' "$1"
}
prefix=$(option prefix) libdir=$(option libdir)
[ "$(option portable)" = True ] || {
	echo "tarball: $build is not a portable build: make release" >&2
	exit 1
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
DESTDIR=$work/root meson install -C "$build" --no-rebuild --strip --quiet
tree=$work/gpuscope-$version-x86_64
mv "$work/root$prefix" "$tree"
# One place for libraries, whatever the distribution of the build calls it: the program looks in lib/gpuscope, too.
if [ "$libdir" != lib ]; then
	mkdir -p "$tree/lib"
	cp -a "$tree/$libdir/." "$tree/lib/"
	rm -rf "${tree:?}/$libdir"
fi
# The library needs others of the distribution, so it is for packages; nothing is left that needs more than glibc.
rm -rf "$tree/include" "$tree"/lib/libgpuscope.so* "$tree/lib/pkgconfig" "$tree/share/man/man3"
# Texts name /usr/local, which install.sh replaces.
find "$tree/lib/systemd" "$tree/share/doc/gpuscope/slurm" -type f -exec sed -i "s|$prefix/$libdir|$prefix/lib|g; s|$prefix/|/usr/local/|g" {} +
install -m 755 packaging/tarball/install.sh packaging/tarball/uninstall.sh "$tree"
install -m 644 LICENSE "$tree"
install -m 644 "$build/gpuscope.spdx.json" "$build/LICENSES.txt" "$tree/share/doc/gpuscope"
mkdir -p "$out"
tar -C "$work" -c --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner --mode=u+rwX,go+rX,go-w "${tree##*/}" |
	xz -T0 >"$out/${tree##*/}.tar.xz"
ls -l "$out/${tree##*/}.tar.xz"
