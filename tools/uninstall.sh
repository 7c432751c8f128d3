#!/usr/bin/env bash
# Removes what the last `make install` of this build folder installed, and the folders that are empty then. Configurations in
# /etc/gpuscope stay where a site has changed them.
#
# usage: uninstall.sh BUILD [DESTDIR]. `make uninstall` calls it.
set -euo pipefail

build=$1 destdir=${2:-}
log=$build/meson-logs/install-log.txt

[ -r "$log" ] || {
	echo "uninstall: nothing was installed from $build ($log is not there)" >&2
	exit 1
}
etc=$destdir/etc/gpuscope
for sample in "$build"/packaging/config/*.yaml "$build"/packaging/slurm/slurm.conf; do
	file=$etc/$(basename "$sample")
	if [ -e "$file" ] && cmp -s "$sample" "$file"; then
		rm "$file"
	fi
done
# The log names what was installed, with DESTDIR; folders of our own name may go, shared ones only when that empties them.
mapfile -t installed < <(grep -v '^#' "$log")
for path in "${installed[@]}"; do
	if [ -L "$path" ] || [ ! -d "$path" ]; then
		rm -f "$path"
	fi
done
printf '%s\n' "${installed[@]}" | while read -r path; do
	case $path in */gpuscope/*) echo "${path%/*}" ;; esac
done | sort -ru | while read -r folder; do
	while [[ $folder == */gpuscope* ]]; do
		rmdir "$folder" 2>/dev/null || break
		folder=${folder%/*}
	done
done
[ ! -d "$etc" ] || rmdir "$etc" 2>/dev/null || echo "kept $etc: it contains changed or added files"
mv "$log" "$log.uninstalled"
