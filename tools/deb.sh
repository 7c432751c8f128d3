#!/usr/bin/env bash
# Builds Debian's packages out of this tree: source package, *.deb and *.changes in OUT (build/deb), by packaging/debian. What is
# missing for it is named; `apt-get build-dep ./` in OUT/gpuscope-VERSION installs that.
#
# usage: tools/deb.sh [--revision N] [OUT]
#   --revision N: make revision VERSION-N of the packages; what OUT has built already is packed again
# environment: DEBEMAIL and DEBFULLNAME, as Debian's tools have them: the maintainer of these packages
set -euo pipefail
cd "$(dirname "$0")/.."

revision=
if [ "${1:-}" = --revision ]; then
	revision=$2
	shift 2
fi
out=$(realpath -m "${1:-build/deb}")
command -v dpkg-buildpackage >/dev/null || {
	echo "deb: dpkg-buildpackage is missing: apt-get install dpkg-dev debhelper" >&2
	exit 1
}
# debhelper gives builds another home, without the settings of a compiler cache.
if command -v ccache >/dev/null; then
	CCACHE_DIR=$(ccache -k cache_dir)
	export CCACHE_DIR
fi

options=(-us -uc)
source=$(find "$out" -mindepth 1 -maxdepth 1 -type d -name 'gpuscope-*' 2>/dev/null || true)
if [ -n "$revision" ] && [ -e "$source/debian/files" ]; then
	options+=(-nc -b)
else
	rm -rf "$out"
	mkdir -p "$out"
	tools/source_tar.sh "$out"
	tar -C "$out" -xJf "$out"/gpuscope-*.tar.xz
	source=$(find "$out" -mindepth 1 -maxdepth 1 -type d)
	version=${source##*/gpuscope-}
	mv "$out/gpuscope-$version.tar.xz" "$out/gpuscope_$version.orig.tar.xz"
	cp -a packaging/debian "$source/debian"
	# Who packs them answers for them: of the sources there is no address.
	if [ -n "${DEBEMAIL:-}" ]; then
		name=${DEBFULLNAME:-${DEBEMAIL%@*}} MAIL=$DEBEMAIL perl -pi -e 's/The gpuscope authors <\S+>/$ENV{name} <$ENV{MAIL}>/' \
			"$source/debian/control" "$source/debian/changelog"
	else
		echo "deb: DEBEMAIL is not set: the packages name an address that does not exist as that of their maintainer" >&2
	fi
fi
if [ -n "$revision" ]; then
	sed -i "1s/-[0-9]*)/-$revision)/" "$source/debian/changelog"
fi
(cd "$source" && dpkg-buildpackage "${options[@]}")
ls -l "$out"/*.deb
