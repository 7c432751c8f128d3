#!/usr/bin/env bash
# Installs what building gpuscope and its demo needs on Debian 12 and Ubuntu 24.04, and nothing that is
# there already: compilers and libraries, no service. `--check`: also what the tests need (Slurm,
# Prometheus) and what some tests run on, where the distribution has it (PyTorch and Chromium: some two
# hundred packages); none of their services is left running. `--print` only names the missing packages.
#
# usage: tools/deps.sh [--check] [--print]
set -euo pipefail

packages=(gcc make meson ninja-build pkg-config binutils clang bpftool libbpf-dev libelf-dev zlib1g-dev libzstd-dev
	libiberty-dev libyaml-dev libssl-dev libncurses-dev libcmocka-dev linux-libc-dev python3 libnghttp2-dev
	libsqlite3-dev libprotobuf-c-dev libprotobuf-dev protobuf-c-compiler libjansson-dev)
check_packages=(g++ abigail-tools systemtap-sdt-dev python3-yaml protobuf-compiler zstd tmux curl openssl libcurl4
	libcurl4-openssl-dev libcairo2 prometheus prometheus-alertmanager munge slurmctld slurmd slurm-client
	libslurm-dev mandoc groff-base jq iproute2 openmpi-bin gfortran libopenmpi-dev mpich libmpich-dev)
wanted=()
print=
for word in "$@"; do
	case $word in
	--check)
		packages+=("${check_packages[@]}")
		wanted=(clang-format clang-tidy shellcheck systemd-container iproute2 strace zsh fish musl-tools python3-torch
			python3-grpcio python3-numpy python3-pandas python3-protobuf python3-venv mypy
			python3-websocket python3-jsonschema python3-kubernetes rpm rpmlint chromium libnss3-tools poppler-utils victoria-metrics
			mariadb-server-core mariadb-client-core libmariadb-dev prometheus-node-exporter docker-compose)
		;;
	--print) print=1 ;;
	*)
		echo "usage: tools/deps.sh [--check] [--print]" >&2
		exit 2
		;;
	esac
done

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
	echo "deps: this is not a Debian or Ubuntu machine: install by hand what corresponds to: ${packages[*]}" >&2
	exit 1
fi

is_installed() {
	dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null | grep -q '^ii'
}

missing=()
for p in "${packages[@]}"; do
	# Ubuntu ships bpftool with the kernel's tools.
	[ "$p" = bpftool ] && is_installed linux-tools-common && continue
	is_installed "$p" || missing+=("$p")
done

# No lists of packages yet: then it is not known until the update below.
is_known() {
	[ -n "$(apt-cache show "$1" 2>/dev/null)" ]
}

is_offered() {
	is_known "$1" || ! is_known bash
}
lacking=()
for p in "${wanted[@]}"; do
	is_installed "$p" || ! is_offered "$p" || lacking+=("$p")
done
if [ -n "$print" ]; then
	printf '%s\n' "${missing[@]}" "${lacking[@]}"
	exit 0
fi
[ $((${#missing[@]} + ${#lacking[@]})) -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" != 0 ]; then
	if ! command -v sudo >/dev/null; then
		echo "deps: these packages are missing, and installing them needs root: ${missing[*]} ${lacking[*]}" >&2
		# Tests that need the others say so and are skipped.
		[ ${#missing[@]} -eq 0 ] && exit 0
		exit 1
	fi
	as_root=(sudo)
fi
echo "installing: ${missing[*]} ${lacking[*]}"
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
for p in "${lacking[@]}"; do
	is_known "$p" && missing+=("$p")
done
[ ${#missing[@]} -eq 0 ] && exit 0
if ! is_known bpftool; then
	missing=("${missing[@]/#bpftool/linux-tools-generic}")
fi
# The tests start daemons of their own: their packages shall not leave any running on this machine.
daemons=()
for d in prometheus prometheus-alertmanager prometheus-node-exporter victoria-metrics munge slurmctld slurmd; do
	[[ " ${missing[*]} " == *" $d "* ]] && daemons+=("$d")
done
if [ ${#daemons[@]} -gt 0 ] && [ ! -e /usr/sbin/policy-rc.d ]; then
	printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee /usr/sbin/policy-rc.d >/dev/null
	"${as_root[@]}" chmod 755 /usr/sbin/policy-rc.d
	trap '"${as_root[@]}" rm -f /usr/sbin/policy-rc.d' EXIT
fi
# A machine that has just started may still be at its own updates.
"${as_root[@]}" apt-get install -o DPkg::Lock::Timeout=600 -y -qq --no-install-recommends "${missing[@]}" >/dev/null
if [ ${#daemons[@]} -gt 0 ] && command -v systemctl >/dev/null; then
	"${as_root[@]}" systemctl disable --quiet "${daemons[@]}" 2>/dev/null || true
fi
