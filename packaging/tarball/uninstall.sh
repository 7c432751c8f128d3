#!/bin/sh
# Removes everything that install.sh installed, and unchanged samples in /etc/gpuscope.
#
# usage: PREFIX/share/gpuscope/uninstall.sh      (environment: DESTDIR, as for install.sh)
set -eu

prefix=$(cd "$(dirname "$0")/../.." && pwd)
list=$prefix/share/gpuscope/installed
[ -r "$list" ] || {
	echo "uninstall.sh: cannot read $list: run the installed copy, PREFIX/share/gpuscope/uninstall.sh" >&2
	exit 1
}
etc=${DESTDIR:-}/etc/gpuscope
for sample in examples/agent.yaml examples/head.yaml slurm/slurm.conf; do
	file=$etc/${sample##*/}
	if [ -e "$file" ] && cmp -s "$prefix/share/doc/gpuscope/$sample" "$file"; then
		rm -f "$file"
	fi
done
cp "$list" "$prefix/share/gpuscope/installed.old"
while IFS= read -r path; do
	rm -f "$prefix/$path"
	# Folders that are ours alone go with the last file in them.
	folder=${path%/*}
	while :; do
		case $folder in */gpuscope | */gpuscope/*) rmdir "$prefix/$folder" 2>/dev/null || break ;; *) break ;; esac
		folder=${folder%/*}
	done
done <"$prefix/share/gpuscope/installed.old"
rm -f "$prefix/share/gpuscope/installed.old"
rmdir "$prefix/share/gpuscope" 2>/dev/null || true
[ ! -d "$etc" ] || rmdir "$etc" 2>/dev/null || echo "kept $etc: it contains changed or added files"
