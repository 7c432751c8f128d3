#!/bin/sh
# Installs the gpuscope in this folder below PREFIX (/usr/local). Nothing is built or downloaded. Existing files in /etc/gpuscope are
# kept. PREFIX/share/gpuscope/uninstall.sh removes everything again.
#
# usage: install.sh [--prefix PREFIX]      (environment: DESTDIR)
set -eu

here=$(cd "$(dirname "$0")" && pwd)
prefix=/usr/local
case ${1:-} in
--prefix) prefix=${2:?--prefix needs a folder} ;;
--prefix=*) prefix=${1#*=} ;;
'') ;;
*)
	echo "usage: install.sh [--prefix PREFIX]" >&2
	exit 2
	;;
esac
case $prefix in
/*) prefix=${prefix%/} ;;
*)
	echo "install.sh: prefix $prefix is not an absolute path: it must begin with /" >&2
	exit 2
	;;
esac
case $prefix in
*[!A-Za-z0-9._/+-]*)
	echo "install.sh: the prefix may contain only letters, digits and . _ + - / because it is written into units and scripts" >&2
	exit 2
	;;
esac
destdir=${DESTDIR:-}

"$here/bin/gpuscope" --version >/dev/null || {
	echo "install.sh: bin/gpuscope does not run here: it needs x86-64 and a glibc at least as new as on the build machine" >&2
	exit 1
}
list=$destdir$prefix/share/gpuscope/installed
mkdir -p "$destdir$prefix/share/gpuscope"
: >"$list.new"
(cd "$here" && find bin lib libexec share \( -type f -o -type l \)) | LC_ALL=C sort | while IFS= read -r path; do
	to=$destdir$prefix/$path
	mkdir -p "$(dirname "$to")"
	# A program that runs keeps its file: the new one gets the name.
	rm -f "$to"
	case $path in
	lib/systemd/* | share/doc/gpuscope/slurm/*)
		sed "s|/usr/local/|$prefix/|g" "$here/$path" >"$to"
		chmod 644 "$to"
		;;
	*) cp -P --preserve=mode,timestamps "$here/$path" "$to" ;;
	esac
	echo "$path" >>"$list.new"
done
for path in share/gpuscope/installed share/gpuscope/uninstall.sh; do
	echo "$path" >>"$list.new"
done
cp "$here/uninstall.sh" "$destdir$prefix/share/gpuscope/uninstall.sh"
mv "$list.new" "$list"

if mkdir -p "$destdir/etc/gpuscope" 2>/dev/null && [ -w "$destdir/etc/gpuscope" ]; then
	for sample in examples/agent.yaml examples/head.yaml slurm/slurm.conf; do
		file=$destdir/etc/gpuscope/${sample##*/}
		[ -e "$file" ] || install -m 644 "$destdir$prefix/share/doc/gpuscope/$sample" "$file"
	done
else
	echo "cannot write to /etc/gpuscope: create it for configuration files; samples are in $prefix/share/doc/gpuscope/examples"
fi
# systemd only looks below /usr, /usr/local and /etc.
case $prefix in
/usr | /usr/local) ;;
*) echo "to run the agent as a service: systemctl link $prefix/lib/systemd/system/gpuscope-agent.socket $prefix/lib/systemd/system/gpuscope-agent.service" ;;
esac
echo "installed $("$destdir$prefix/bin/gpuscope" --version | head -n 1) in $destdir$prefix; to remove it: $destdir$prefix/share/gpuscope/uninstall.sh"
