#!/usr/bin/env bash
# Packages and the tarball on machines that have nothing else: in clean roots of Debian 12 (debootstrap, kept in build/chroot), as
# root, with the real programs in the kernel. `make packages-check` calls it; it takes minutes and needs a mirror of Debian.
#
# usage: tests/packages/check.sh BUILD [PART...]      PART: deb tarball prefix rpm container (all)
# environment: MIRROR (http://deb.debian.org/debian), KEEP=1: what was built before is used
set -euo pipefail
cd "$(dirname "$0")/../.."

build=$(realpath "${1:?usage: check.sh BUILD [PART...]}")
shift
parts=("${@:-all}")
[ "${parts[0]}" != all ] || parts=(deb tarball prefix rpm container)
mirror=${MIRROR:-http://deb.debian.org/debian}
here=$PWD/build/chroot
demo=$build/tests/fake

if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null; then
	echo "1..0 # SKIP needs root and debootstrap"
	exit 0
fi
# Mounts end with this script.
if [ -z "${GPUSCOPE_PACKAGES_APART:-}" ]; then
	GPUSCOPE_PACKAGES_APART=1 exec unshare -m --propagation private "$0" "$build" "${parts[@]}"
fi

# Before the first new_root, too: what is built for it is logged there.
mkdir -p "$here"

n=0
ok() { echo "ok $((++n)) - $*"; }
fail() {
	echo "not ok $((++n)) - $*"
	exit 1
}
# check WHAT COMMAND...: what the command says is shown when it fails.
check() {
	local what=$1
	shift
	# In no condition, where the shell would go on after an error.
	set +e
	(
		set -e
		"$@"
	) >"$here/check.$$.log" 2>&1
	local status=$?
	set -e
	[ $status = 0 ] || tail -n 30 "$here/check.$$.log" | cut -c1-200 | sed "s/^/# /"
	[ $status = 0 ] || fail "$what"
	ok "$what"
}
is_kept() { [ -n "${KEEP:-}" ] && compgen -G "$1" >/dev/null; }

# new_root NAME: $root is a Debian with nothing in it, and the demo program in /opt/demo.
new_root() {
	root=$here/$1
	mkdir -p "$here/archives/partial"
	[ -e "$here/base/.done" ] || {
		rm -rf "$here/base"
		debootstrap --variant=minbase --include=ca-certificates bookworm "$here/base" "$mirror" >"$here/debootstrap.log" 2>&1 ||
			fail "debootstrap (see $here/debootstrap.log)"
		touch "$here/base/.done"
	}
	rm -rf "$root.upper" "$root.work"
	mkdir -p "$root" "$root.upper" "$root.work"
	mount -t overlay -o "lowerdir=$here/base,upperdir=$root.upper,workdir=$root.work" overlay "$root"
	for place in proc sys dev; do mount --rbind /$place "$root/$place"; done
	mkdir -p "$root/opt/demo" "$root/var/cache/apt/archives"
	mount --bind "$here/archives" "$root/var/cache/apt/archives"
	cp /etc/resolv.conf "$root/etc/resolv.conf"
	cp -a "$demo/demo_train" "$demo"/lib*.so* "$root/opt/demo/"
}

in_root() {
	chroot "$root" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb \
		DEBIAN_FRONTEND=noninteractive "$@"
}
get() { in_root apt-get -o Dpkg::Use-Pty=0 -o APT::Keep-Downloaded-Packages=true -y -q --no-install-recommends "$@"; }
# Everything of gpuscope's name that is left there, but the demo and what was copied in.
left() {
	find "$root" -xdev \( -path "$root/opt/demo" -o -path "$root/pkgs" -o -path "$root/proc" -o -path "$root/sys" -o -path "$root/dev" \
		-o -path "$root/var/cache" \) -prune -o \( -name '*gpuscope*' -o -name '*gsprof*' \) -print
}

# traces PREFIX: calls of the demo program are traced, from outside and by the libraries that are loaded into it.
traces() {
	local way
	for way in "" --inside; do
		# shellcheck disable=SC2086
		in_root "$1/bin/gpuscope" trace $way --format json --summary /tmp/summary.json -- /opt/demo/demo_train
		python3 - "$root/tmp/summary.json" <<-'PY'
			import json, sys
			text = open(sys.argv[1]).read()
			calls = [f['calls'] for f in json.loads(text)['processes'][0]['functions'] if f['name'] == 'cudaLaunchKernel']
			assert calls and calls[0] > 100, text[:2000]
		PY
	done
}

# serves PREFIX: the agent starts by its unit's ExecStart with the configuration that is in /etc/gpuscope.
serves() {
	local words address='' agent
	cat >>"$root/etc/gpuscope/agent.yaml" <<-'YAML'
		http:
		  listen: "127.0.0.1:0"
		gpu:
		  library: /opt/demo/libnvidia-ml.so.1
		control:
		  path: ""
	YAML
	read -ra words < <(sed -n 's/^ExecStart=//p' "$root$1/lib/systemd/system/gpuscope-agent.service")
	FAKE_NVML=gpus=2 chroot "$root" "${words[@]}" 2>"$here/agent.$$.log" &
	agent=$!
	# shellcheck disable=SC2064
	trap "kill $agent 2>/dev/null || :" EXIT
	while kill -0 $agent && [ -z "$address" ]; do
		address=$(sed -n 's|.*served at http://\([^/]*\)/metrics.*|\1|p' "$here/agent.$$.log")
		sleep 0.1
	done
	cat "$here/agent.$$.log"
	[ -n "$address" ]
	curl -sf "http://$address/metrics" >"$here/metrics.$$"
	grep -q '^gpuscope_gpu_.*gpu="1"' "$here/metrics.$$"
	kill $agent
	wait $agent
}

# paths_exist PREFIX: what Slurm's configuration is said to name is there, and the prolog finds the program.
paths_exist() {
	local path
	for path in $(sed -n 's|^ *Prolog=||p; s|^ *Epilog=||p' "$root$1/share/doc/gpuscope/slurm/README.md") \
		$(sed -n 's|^optional \([^ ]*\) record=\([^ ]*\)|\1 \2|p' "$root$1/share/doc/gpuscope/slurm/plugstack.conf"); do
		[ -e "$root$path" ] || { echo "$path is not there"; return 1; }
	done
	# shellcheck disable=SC2016
	[ "$(in_root sh -c 'here=$1/libexec/gpuscope; . "$here/common.sh"; read_conf; echo "$GPUSCOPE"' sh "$1")" = "$1/bin/gpuscope" ]
}

completes() {
	# shellcheck disable=SC2016
	in_root bash -c '. /usr/share/bash-completion/bash_completion && { _completion_loader gpuscope || :; }; complete -p gpuscope >/dev/null &&
		COMP_WORDS=(gpuscope tr) COMP_CWORD=1 COMP_LINE="gpuscope tr" COMP_POINT=11 &&
		$(complete -p gpuscope | sed "s/.*-F \([^ ]*\).*/\1/") gpuscope tr gpuscope && [[ " ${COMPREPLY[*]} " == *" trace"* ]]'
}
shows_page() { in_root sh -c 'MANPAGER=cat man gpuscope-trace | grep -q "EXIT STATUS"'; }

part_deb() {
	local out=$PWD/build/deb version first second suppress=()
	is_kept "$out/gpuscope_*-1_amd64.deb" || check "packages are built" tools/deb.sh "$out"
	is_kept "$out/gpuscope_*-2_amd64.deb" || check "another revision is built" tools/deb.sh --revision 2 "$out"
	# The page of the program itself.
	[ -e man/gpuscope.1 ] || suppress=(--suppress-tags no-manual-page)
	if command -v lintian >/dev/null; then
		check "lintian has nothing to say" bash -c "cd '$out' && lintian --allow-root ${suppress[*]} --fail-on error,warning gpuscope_*-1*.changes gpuscope_*-1.dsc"
	else
		echo "ok $((++n)) - lintian # SKIP it is not installed"
	fi
	version=$(cd "$out" && echo gpuscope_*-1.dsc | sed 's/gpuscope_//; s/-1.dsc//')
	new_root deb
	mkdir "$root/pkgs"
	cp "$out"/*.deb "$root/pkgs"
	rm -f "$root/pkgs/"*dbgsym*
	first=("$root"/pkgs/*-1_*.deb) second=("$root"/pkgs/*-2_*.deb)
	check "the mirror is read" get update
	check "man and bash-completion are there" get install man-db bash-completion
	check "packages install" get install "${first[@]#"$root"}"
	check "none of the units is enabled" bash -c "! find '$root/etc/systemd' -name 'gpuscope*' | grep ."
	check "the program has its version" bash -c "chroot '$root' gpuscope --version | grep -qF 'gpuscope $version'"
	check "it traces the demo program, from outside and inside" traces /usr
	check "the agent starts by its unit and serves" serves /usr
	check "Slurm's paths" paths_exist /usr
	check "bash completes" completes
	check "man shows a page" shows_page
	cp packaging/debian/tests/installed "$root/tmp/installed"
	check "what autopkgtest would run" in_root sh /tmp/installed
	check "a program and Python use the library" uses_library
	echo '# changed here' >>"$root/etc/gpuscope/head.yaml"
	check "packages upgrade" get install "${second[@]#"$root"}"
	check "to the new revision" bash -c "chroot '$root' dpkg-query -W -f '\${Version}' gpuscope | grep -qx '$version-2'"
	check "a changed configuration stays" grep -q '# changed here' "$root/etc/gpuscope/head.yaml"
	check "it still traces" traces /usr
	check "packages are removed" get remove '^gpuscope' '^libgpuscope' '^python3-gpuscope'
	check "the program is gone, the configuration is not" test ! -e "$root/usr/bin/gpuscope" -a -e "$root/etc/gpuscope/head.yaml"
	# apt forgets packages of files that were removed.
	check "packages are purged" in_root dpkg --purge gpuscope
	check "dpkg knows none of them" bash -c "! chroot '$root' dpkg-query -W -f '\${Package} \${db:Status-Abbrev}\n' '*gpuscope*' 2>/dev/null | grep -v ' un'"
	left >"$here/left.$$"
	check "nothing is left" test ! -s "$here/left.$$"
}

uses_library() {
	get install gcc libc6-dev pkg-config python3
	printf '#include <gpuscope/gpuscope.h>\n#include <stdio.h>\nint main(void) { return puts(gs_library_version()) < 0; }\n' >"$root/tmp/a.c"
	# shellcheck disable=SC2016
	in_root sh -c 'cc -o /tmp/a /tmp/a.c $(pkg-config --cflags --libs libgpuscope) && /tmp/a'
	in_root python3 -c 'import gpuscope; print(gpuscope.__version__)'
}

part_tarball() {
	local archive prefix
	is_kept "build/gpuscope-*-x86_64.tar.xz" || check "the tarball is built" make --no-print-directory tarball
	archive=$(echo build/gpuscope-*-x86_64.tar.xz)
	for prefix in /usr/local /opt/gs; do
		new_root "tarball${prefix//\//-}"
		mkdir "$root/pkgs"
		tar -C "$root/pkgs" -xJf "$archive"
		check "$prefix: there is no compiler, no make" bash -c "! chroot '$root' sh -c 'command -v cc || command -v make || command -v python3'"
		check "$prefix: it installs" in_root sh -c "/pkgs/gpuscope-*/install.sh --prefix $prefix"
		check "$prefix: it traces the demo program, from outside and inside" traces "$prefix"
		check "$prefix: Slurm's paths" paths_exist "$prefix"
		check "$prefix: units name the program" bash -c "grep -h '^Exec[SR].*bin/gpuscope' '$root$prefix'/lib/systemd/system/*.service | grep -v kill | awk -F '[= ]' '{print \$2}' | sort -u | grep -qx '$prefix/bin/gpuscope'"
		check "$prefix: a second installation keeps what was changed" in_root sh -c \
			"echo '# changed here' >>/etc/gpuscope/head.yaml; /pkgs/gpuscope-*/install.sh --prefix $prefix; grep -q 'changed here' /etc/gpuscope/head.yaml"
		check "$prefix: the agent starts by its unit and serves" serves "$prefix"
		check "$prefix: it uninstalls" in_root "$prefix/share/gpuscope/uninstall.sh"
		check "$prefix: changed configurations stay" test -e "$root/etc/gpuscope/head.yaml" -a ! -e "$root/etc/gpuscope/slurm.conf"
		rm -r "$root/etc/gpuscope"
		left >"$here/left.$$"
		check "$prefix: nothing is left" test ! -s "$here/left.$$"
	done
}

# `make`, then `make install` with another prefix, which BUILD has until the end.
part_prefix() {
	local prefix=/opt/gpuscope-prefix-check log=$here/install.$$.log had
	had=$(meson introspect "$build" --buildoptions | python3 -c 'import json, sys
print(next(o["value"] for o in json.load(sys.stdin) if o["name"] == "prefix"))')
	# shellcheck disable=SC2064
	trap "meson configure '$build' -Dprefix='$had'" EXIT
	check "make" make --no-print-directory BUILD="$build"
	new_root prefix
	check "libraries of the distribution" get install libbpf1 libelf1 zlib1g libzstd1 libncursesw6 libyaml-0-2 libssl3 libnghttp2-14 libjansson4 \
		libprotobuf-c1 libsqlite3-0
	make --no-print-directory BUILD="$build" install PREFIX=$prefix DESTDIR="$root" >"$log" 2>&1 || fail "make install (see $log)"
	check "make install links no program again" bash -c "! grep -E 'Linking target src/gpuscope\$' '$log'"
	check "it traces the demo program, from outside and inside" traces $prefix
	check "Slurm's paths" paths_exist $prefix
	check "the agent starts by its unit and serves" serves $prefix
	rm "$root/etc/gpuscope/agent.yaml"
	check "make uninstall" make --no-print-directory BUILD="$build" uninstall DESTDIR="$root"
	left >"$here/left.$$"
	check "nothing is left" bash -c "! grep -v '^$root$prefix\$' '$here/left.$$'"
}

part_rpm() {
	if ! command -v rpmbuild >/dev/null || ! command -v rpm2cpio >/dev/null; then
		echo "ok $((++n)) - rpm # SKIP rpmbuild is not installed"
		return
	fi
	is_kept "build/rpm/RPMS/x86_64/gpuscope-*.rpm" || check "packages are built" tools/rpm.sh
	if command -v rpmlint >/dev/null; then
		check "rpmlint has nothing to say" rpmlint --strict -c packaging/rpm/rpmlint.toml packaging/rpm/gpuscope.spec build/rpm/RPMS/*/*.rpm
	else
		echo "ok $((++n)) - rpmlint # SKIP it is not installed"
	fi
	new_root rpm
	check "libraries of the distribution" get install libbpf1 libelf1 zlib1g libzstd1 libncursesw6 libyaml-0-2 libssl3 libnghttp2-14 libjansson4 \
		libprotobuf-c1 libsqlite3-0
	for package in build/rpm/RPMS/*/*.rpm; do rpm2cpio "$package" | (cd "$root" && cpio -idm --quiet); done
	check "it traces the demo program, from outside and inside" traces /usr
	check "Slurm's paths" paths_exist /usr
	check "the agent starts by its unit and serves" serves /usr
}

# The image is built with a base that is made here, as no registry can be reached, and by the steps of the file.
part_container() {
	local store=$here/containers run
	if ! command -v buildah >/dev/null; then
		echo "ok $((++n)) - container # SKIP buildah is not installed"
		return
	fi
	run=(buildah --root "$store" --runroot "$store.run" --storage-driver vfs)
	new_root container
	umount "$root/var/cache/apt/archives"
	for place in dev sys proc; do umount -l "${root:?}/$place"; done
	base=$("${run[@]}" from scratch)
	"${run[@]}" add -q "$base" "$here/base" / >/dev/null
	"${run[@]}" commit -q "$base" localhost/debian:12-slim >/dev/null
	rm -rf "$here/context"
	mkdir -p "$here/context"
	tar -C "$here/context" --strip-components=1 -xJf build/gpuscope-*-x86_64.tar.xz
	check "the image is built" "${run[@]}" build --isolation chroot --network host --build-arg BASE=localhost/debian:12-slim \
		-f packaging/deployment/kubernetes/Containerfile -t localhost/gpuscope "$here/context"
	run_in=$("${run[@]}" from --pull-never localhost/gpuscope)
	mounted=$("${run[@]}" mount "$run_in")
	check "its entry point is the program" bash -c "chroot '$mounted' $("${run[@]}" inspect --format '{{index .OCIv1.Config.Entrypoint 0}}' "$run_in") --version"
	check "it has curl's library and certificates" test -e "$mounted/usr/lib/x86_64-linux-gnu/libcurl.so.4" -a -s "$mounted/etc/ssl/certs/ca-certificates.crt"
	"${run[@]}" rm -a >/dev/null
	rm -rf "$store" "$store.run"
}

for part in "${parts[@]}"; do
	echo "# $part"
	"part_$part"
done
rm -f "$here"/*."$$" "$here"/*."$$".log
echo "1..$n"
