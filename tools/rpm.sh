#!/usr/bin/env bash
# Builds *.rpm and *.src.rpm by packaging/rpm/gpuscope.spec in OUT (build/rpm). Where rpm does not know what is installed, as on
# Debian, nothing is said of missing packages: the build itself fails then.
#
# usage: tools/rpm.sh [OUT]
set -euo pipefail
cd "$(dirname "$0")/.."

out=$(realpath -m "${1:-build/rpm}")
command -v rpmbuild >/dev/null || {
	echo "rpm: rpmbuild is missing: install rpm-build (Debian: rpm)" >&2
	exit 1
}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date -r meson.build +%s)}
export SOURCE_DATE_EPOCH
rm -rf "$out"
mkdir -p "$out/SOURCES"
tools/source_tar.sh "$out/SOURCES"
options=(--define "_topdir $out" --define "debug_package %{nil}")
# Debian's rpm has an empty database.
rpm -q rpm >/dev/null 2>&1 || options+=(--nodeps)
rpmbuild "${options[@]}" -ba packaging/rpm/gpuscope.spec
find "$out" -name '*.rpm' -exec ls -l {} +
