#!/bin/sh
# Epilog of slurmd (as root, after the job's last process): ends the recording, hands the report to the job's user.
# Whatever happens here, it ends with 0: another status would drain the node.
here=$(dirname "$(readlink -f "$0")")
[ -r "$here/common.sh" ] || exit 0
# shellcheck source=packaging/slurm/common.sh
. "$here/common.sh"

# Into the output file of a batch job, by the node that ran its script. As the user: the file's name is the user's to choose.
print_at_end() {
	command -v scontrol >/dev/null || return
	shown=$(timeout 10 scontrol show job "$job") || return
	[ "$(printf '%s\n' "$shown" | sed -n 's/^ *BatchHost=//p')" = "${SLURMD_NODENAME:-$(hostname -s)}" ] || return
	out=$(printf '%s\n' "$shown" | sed -n 's/^ *StdOut=//p')
	[ -n "$out" ] || return
	# shellcheck disable=SC2016
	as_user "$uid" "$gid" sh -c '[ ! -f "$1" ] || { echo; cat; } >>"$1"' sh "$out" <"$report.txt" ||
		say "job $job: the report could not be appended to its output"
}

main() {
	read_conf
	job=${SLURM_JOB_ID:-} uid=${SLURM_JOB_UID:-} node=$(plain_name "${SLURMD_NODENAME:-$(hostname -s)}")
	is_number "$job" || { say "epilog: no job in SLURM_JOB_ID"; return; }
	is_number "$uid" || { say "epilog: no user in SLURM_JOB_UID"; return; }
	pid_file=$GPUSCOPE_RUN/$job.$node.pid report=$GPUSCOPE_REPORTS/$job.$node
	# The prolog has said why there is none.
	[ -e "$pid_file" ] || return
	stop_job "$pid_file"
	rm -f "${pid_file%.pid}.uid"
	if [ -f "$report.json" ]; then
		gid=$(id -g "$uid" 2>/dev/null || echo "$uid")
		hand_over "$report" "$uid"
		[ "$GPUSCOPE_AT_END" != yes ] || print_at_end
	fi
	sweep
}

# In a shell of its own: a slip in slurm.conf ends that one.
(main)
exit 0
