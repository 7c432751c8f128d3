#!/usr/bin/env bash
# Builds the release twice, in different folders, at different times and without a compiler's cache, and compares what each would
# install, byte by byte. `make reproducible` calls it; FOLDER (a temporary one) keeps both when they differ.
#
# usage: tools/reproducible.sh [FOLDER]
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(realpath -m "${1:-$(mktemp -d)}")
export CCACHE_DISABLE=1
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date -r meson.build +%s)}
export SOURCE_DATE_EPOCH
mkdir -p "$work"
tools/source_tar.sh "$work"
i=0
# Different lengths, too: a path that is left over moves what follows.
for folder in first a/second/much/longer/one; do
	mkdir -p "$work/$folder"
	tar -C "$work/$folder" --strip-components=1 -xJf "$work"/gpuscope-*.tar.xz
	i=$((i + 1))
	(
		cd "$work/$folder"
		meson setup out --buildtype=release -Dportable=true -Db_lto=true -Dtests=disabled --strip >/dev/null
		ninja -C out >/dev/null
		DESTDIR=$work/installed$i meson install -C out --no-rebuild --strip --quiet
	)
done
if diff -r --no-dereference "$work/installed1" "$work/installed2"; then
	echo "the same: $(find "$work/installed1" -type f | wc -l) files, gpuscope $(sha256sum "$work/installed1/usr/local/bin/gpuscope" | cut -c1-16)"
	rm -rf "$work"
else
	echo "not the same: $work/installed1 and $work/installed2" >&2
	exit 1
fi
