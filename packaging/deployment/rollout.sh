#!/bin/bash
# Brings the agent to the nodes of a cluster with ssh alone: one node first, then many at once, and no further when a
# node fails. Running jobs are not touched: an agent that is replaced keeps what it has not delivered.
#
# usage: rollout.sh TREE [NODE...]
#   TREE: what goes below / on each node: usr/bin/gpuscope, etc/systemd/system/gpuscope-agent.service and its .d,
#         etc/gpuscope/agent.yaml, tokens (mode 0600). NODE: as ssh knows them; none: all of sinfo's that have GPUs.
# environment: AT_ONCE (20), MAX_FAILED (0), RUN_SSH ("ssh -o BatchMode=yes -o ConnectTimeout=10")
# exit status: 0 all done, 1 stopped, 2 wrong usage
set -u
tree=${1:-}
[ -n "$tree" ] && shift
at_once=${AT_ONCE:-20} max_failed=${MAX_FAILED:-0}
read -r -a run_ssh <<<"${RUN_SSH:-ssh -o BatchMode=yes -o ConnectTimeout=10}"
if [ ! -x "$tree/usr/bin/gpuscope" ] || [ ! -r "$tree/etc/gpuscope/agent.yaml" ]; then
	echo "usage: rollout.sh TREE [NODE...]: TREE/usr/bin/gpuscope and TREE/etc/gpuscope/agent.yaml must be there" >&2
	exit 2
fi
# A binary that cannot start is found here, not on a thousand nodes.
if ! "$tree/usr/bin/gpuscope" agent --print-config >/dev/null; then
	echo "rollout: $tree/usr/bin/gpuscope does not start" >&2
	exit 1
fi
nodes=("$@")
if [ ${#nodes[@]} -eq 0 ]; then
	mapfile -t nodes < <(sinfo -h -N -o '%N %G' | awk '$2 ~ /gpu/ {print $1}' | sort -u)
fi
if [ ${#nodes[@]} -eq 0 ]; then
	echo "rollout: no nodes: name some, or run this where sinfo knows nodes with GPUs" >&2
	exit 2
fi

for node in "${nodes[@]}"; do
	case $node in
	-* | */* | "")
		echo "rollout: $node is no name of a node" >&2
		exit 2
		;;
	esac
done

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
tar -C "$tree" --owner=0 --group=0 -cf "$work/tree.tar" . || exit 1

# What a node does. The binary's name gets a new file: one that runs keeps the old. What counts is the agent's own
# answer, not systemctl's.
# shellcheck disable=SC2016
on_node='set -e
tar -C / --unlink-first --no-overwrite-dir -xf -
systemctl daemon-reload
systemctl enable --quiet gpuscope-agent
systemctl restart gpuscope-agent
for i in 1 2 3 4 5 6 7 8 9 10; do
	if gpuscope agent ctl status >/dev/null 2>&1; then exit 0; fi
	sleep 2
done
journalctl -u gpuscope-agent -n 5 --no-pager -o cat >&2
exit 1'

one() {
	local node=$1
	if "${run_ssh[@]}" "$node" "$on_node" <"$work/tree.tar" >"$work/$node.log" 2>&1; then
		echo "$node done"
	else
		echo "$node FAILED: $(tail -n 1 "$work/$node.log")"
		: >"$work/$node.failed"
	fi
}

n_done=0 size=1
while [ "$n_done" -lt ${#nodes[@]} ]; do
	for node in "${nodes[@]:n_done:size}"; do
		one "$node" &
	done
	wait
	n_done=$((n_done + size)) size=$at_once
	failed=("$work"/*.failed)
	[ -e "${failed[0]}" ] || failed=()
	if [ ${#failed[@]} -gt "$max_failed" ]; then
		left=$((${#nodes[@]} - n_done))
		echo "rollout: ${#failed[@]} failed; $((left > 0 ? left : 0)) nodes were left as they are" >&2
		exit 1
	fi
done
echo "rollout: ${#nodes[@]} nodes, ${#failed[@]} failed"
