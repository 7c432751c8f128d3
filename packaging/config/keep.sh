#!/bin/sh
# Meson runs this after everything else is installed. It copies the samples to /etc/gpuscope, where gpuscope looks for any prefix, but
# never over existing files. Without permission to write there, everything else is still installed.
#
# usage: keep.sh SAMPLE...
set -eu

etc=${DESTDIR:-}/etc/gpuscope
mkdir -p "$etc" 2>/dev/null || {
	echo "cannot write to /etc/gpuscope: create it for configuration files" >&2
	exit 0
}
for sample; do
	file=$etc/$(basename "$sample")
	[ -e "$file" ] || install -m 644 "$sample" "$file" || echo "cannot write $file: copy it from $sample" >&2
done
