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
	# Installed together: PREFIX/libexec/gpuscope and PREFIX/bin. $here is the folder of who reads this.
	installed=$(readlink -f "${here:-}/../../bin/gpuscope")
	[ -x "$installed" ] || installed=/usr/bin/gpuscope
	GPUSCOPE=${GPUSCOPE:-$installed}
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

# is_gpuscope PID: whether that process is ours; after an upgrade its file has another name.
is_gpuscope() {
	is_number "$1" || return 1
	case "$(readlink "/proc/$1/exe")" in
	"$(readlink -f "$GPUSCOPE")" | "$(readlink -f "$GPUSCOPE") (deleted)") return 0 ;;
	esac
	return 1
}

# hand_over REPORT UID: to the job's user.
hand_over() {
	report_gid=$(id -g "$2" 2>/dev/null || echo "$2")
	for report_file in "$1".json "$1".txt "$1".gst "$1".trace.txt; do
		[ -f "$report_file" ] || continue
		# Below a folder of root's no other user can have put a link in its place.
		chmod "$GPUSCOPE_MODE" "$report_file"
		chown "$2:$report_gid" "$report_file"
	done
}

# What was left by recorders that were not stopped (slurmd killed the epilog, slurm-record was killed): they have ended by
# themselves, or were killed, and their last report goes to the user now. A minute old: one that starts is left alone.
sweep() {
	find "$GPUSCOPE_RUN" -maxdepth 1 -name '*.pid' -mmin +1 2>/dev/null | while IFS= read -r swept; do
		swept_pid=
		read -r swept_pid _ <"$swept"
		is_gpuscope "$swept_pid" && continue
		swept_uid=
		[ ! -r "${swept%.pid}.uid" ] || read -r swept_uid <"${swept%.pid}.uid"
		stop_job "$swept"
		swept_report=$GPUSCOPE_REPORTS/$(basename "$swept" .pid)
		! is_number "$swept_uid" || hand_over "$swept_report" "$swept_uid"
		rm -f "${swept%.pid}.uid"
	done
	find "$GPUSCOPE_RUN" -mindepth 2 -maxdepth 2 -name owner -mmin +1 2>/dev/null | while IFS= read -r swept; do
		swept_pid='' swept_uid='' swept_name='' swept_run=$(dirname "$swept")
		read -r swept_pid swept_uid swept_name <"$swept"
		case "$(tr '\0' ' ' <"/proc/$swept_pid/cmdline")" in
		*slurm-record*) continue ;;
		esac
		is_number "$swept_uid" || continue
		[ -n "$swept_name" ] || continue
		swept_pid=
		[ ! -r "$swept_run/pid" ] || read -r swept_pid _ <"$swept_run/pid"
		is_gpuscope "$swept_pid" && continue
		swept_pid=
		[ ! -r "$swept_run/trace.pid" ] || read -r swept_pid _ <"$swept_run/trace.pid"
		is_gpuscope "$swept_pid" && continue
		[ ! -e "$swept_run/pid" ] || stop_job "$swept_run/pid"
		(umask 022 && mkdir -p "$GPUSCOPE_REPORTS") || continue
		swept_report=$GPUSCOPE_REPORTS/$swept_name
		for swept_file in report.json:json report.txt:txt trace.gst:gst trace.txt:trace.txt; do
			[ ! -s "$swept_run/${swept_file%%:*}" ] ||
				mv -f "$swept_run/${swept_file%%:*}" "$swept_report.${swept_file#*:}"
		done
		hand_over "$swept_report" "$swept_uid"
		rm -rf "$swept_run"
	done
} 2>/dev/null

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
