#!/usr/bin/env bash
# Has git run tools/hooks in this repository: the subject of each commit, and the format of its C files.
set -euo pipefail
cd "$(dirname "$0")/.."
there=$(git config core.hooksPath || true)
if [ -n "$there" ] && [ "$there" != tools/hooks ]; then
	echo "hooks: this repository has hooks in $there already; call those of tools/hooks from there" >&2
	exit 1
fi
git config core.hooksPath tools/hooks
echo "hooks: commit-msg and pre-commit of tools/hooks; \`git config --unset core.hooksPath\` takes them away"
