#!/usr/bin/env bash
# Writes the source as FOLDER/gpuscope-VERSION.tar.xz: what git knows and is there, or all but build folders where there is no
# git. The same files give the same archive.
#
# usage: tools/source_tar.sh FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."

version=$(sed -n "s/^project(.*[ ,]version: '\([^']*\)'.*/\1/p" meson.build)
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date -r meson.build +%s)}

list_files() {
	if [ -e .git ]; then
		git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' path; do
			[ ! -e "$path" ] && [ ! -L "$path" ] || printf '%s\0' "$path"
		done
	else
		find . -mindepth 1 \( -path './build*' -o -path ./debian -o -path ./.pc -o -path './obj-*' -o -name __pycache__ \) -prune -o \
			\( -type f -o -type l \) -printf '%P\0'
	fi
}

mkdir -p "$1"
list_files | tar -c --null --no-recursion --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner --mode=u+rwX,go+rX,go-w \
	--transform "s,^,gpuscope-$version/,S" -T - | xz -T0 -1 >"$1/gpuscope-$version.tar.xz"
