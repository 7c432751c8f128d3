#!/bin/sh
# Prolog of slurmd (as root, before the job's first process): starts recording the job. Whatever happens here, the job runs.
here=$(dirname "$(readlink -f "$0")")
[ -r "$here/common.sh" ] || exit 0
# shellcheck source=packaging/slurm/common.sh
. "$here/common.sh"

main() {
	read_conf
	job=${SLURM_JOB_ID:-} node=$(plain_name "${SLURMD_NODENAME:-$(hostname -s)}")
	is_number "$job" || { say "prolog: no job in SLURM_JOB_ID"; return; }
	have_gpuscope "$job" || return
	mkdir -p "$GPUSCOPE_RUN" || return
	(umask 022 && mkdir -p "$GPUSCOPE_REPORTS") || return
	# What an earlier run of the job (it was requeued) left is not this one's.
	rm -f "$GPUSCOPE_REPORTS/$job.$node.json" "$GPUSCOPE_REPORTS/$job.$node.txt"
	# For who hands the report over, should the epilog not come.
	! is_number "${SLURM_JOB_UID:-}" || echo "$SLURM_JOB_UID" >"$GPUSCOPE_RUN/$job.$node.uid"
	start_job "$job" "$GPUSCOPE_RUN/$job.$node.pid" "$GPUSCOPE_REPORTS/$job.$node" ||
		rm -f "$GPUSCOPE_RUN/$job.$node.uid"
	sweep
}

# In a shell of its own: a slip in slurm.conf ends that one.
(main)
exit 0
