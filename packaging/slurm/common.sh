# shellcheck shell=sh
# What prolog.sh, epilog.sh and slurm-record share. Nothing here may fail a job: every caller ends with status 0.

PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH
umask 077

# One line where slurmd's own messages go, and in the journal.
say() {
	echo "gpuscope: $*" >&2
	if command -v logger >/dev/null; then
		logger -t gpuscope -- "$*" 2>/dev/null
	fi
}

# /etc/gpuscope/slurm.conf is run as root, so it must be root's.
read_conf() {
	conf=${GPUSCOPE_SLURM_CONF:-/etc/gpuscope/slurm.conf}
	if [ -e "$conf" ]; then
		owner=$(stat -L -c %u "$conf") mode=$(stat -L -c %a "$conf")
		case "$owner:$mode" in
		0:*[2367] | 0:*[2367]?) say "$conf is not read: others than root may write it" ;;
		0:*)
			# shellcheck disable=SC1090
			. "$conf"
			;;
		*) say "$conf is not read: it does not belong to root" ;;
		esac
	fi
	GPUSCOPE=${GPUSCOPE:-/usr/bin/gpuscope}
	GPUSCOPE_REPORTS=${GPUSCOPE_REPORTS:-/var/lib/gpuscope/jobs}
	GPUSCOPE_MODE=${GPUSCOPE_MODE:-0640}
	GPUSCOPE_AT_END=${GPUSCOPE_AT_END:-no}
	GPUSCOPE_OPTIONS=${GPUSCOPE_OPTIONS:-}
	GPUSCOPE_RUN=${GPUSCOPE_RUN:-/run/gpuscope-slurm}
}

is_number() {
	case "$1" in
	'' | *[!0-9]*) return 1 ;;
	esac
}

# A name for files out of what the environment says; nothing in it leads elsewhere.
plain_name() {
	printf %s "$1" | tr -c 'A-Za-z0-9_-' _ | cut -c1-64
}

have_gpuscope() {
	[ -x "$GPUSCOPE" ] && return 0
	say "job $1 is not recorded: no program $GPUSCOPE"
	return 1
}

# start_job JOB PIDFILE REPORT [OPTION...]: REPORT.json and REPORT.txt are written when it ends.
start_job() {
	job_number=$1 job_pid_file=$2 job_report=$3
	shift 3
	# shellcheck disable=SC2086
	timeout 20 "$GPUSCOPE" job -j "$job_number" --detach "$job_pid_file" -o "$job_report.json" -o "$job_report.txt" \
		"$@" $GPUSCOPE_OPTIONS </dev/null >&2 && return 0
	say "job $job_number is not recorded: gpuscope job ended with $?"
	return 1
}

stop_job() {
	timeout 40 "$GPUSCOPE" job --stop "$1" </dev/null >&2
}

# as_user UID GID COMMAND...: with the rights of that user and none of root's.
as_user() {
	as_uid=$1 as_gid=$2
	shift 2
	if getent passwd "$as_uid" >/dev/null; then
		timeout 30 setpriv --reuid "$as_uid" --regid "$as_gid" --init-groups --inh-caps=-all -- "$@"
	else
		timeout 30 setpriv --reuid "$as_uid" --regid "$as_gid" --clear-groups --inh-caps=-all -- "$@"
	fi
}
