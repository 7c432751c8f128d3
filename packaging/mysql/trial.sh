#!/usr/bin/env bash
# Starts a MariaDB server of its own for a trial: a folder with its data, a socket and a port of this machine alone,
# the tables of gpuscope and of eACGM's dashboard, a user for the agent (writes these tables, no more) and one for
# Grafana (reads them). Passwords are random and in files. Nothing outside of the folder is changed.
#
# usage: trial.sh [--dir DIR] [--port PORT] [--schema gpuscope|eacgm|both] start
#        trial.sh [--dir DIR] stop     ends the server; its data stay
#
# Needs mariadbd and the client `mariadb` (Debian, Ubuntu: mariadb-server-core, mariadb-client-core), and gpuscope.
# Another gpuscope than the one in PATH: GPUSCOPE=FILE. Settings of your own for the server: DIR/my.cnf.
set -euo pipefail
umask 077

dir=${TMPDIR:-/tmp}/gpuscope-mysql port=3306 schema=both command=
while [ $# -gt 0 ]; do
	case $1 in
	--dir) dir=$2 && shift ;;
	--port) port=$2 && shift ;;
	--schema) schema=$2 && shift ;;
	start | stop) command=$1 ;;
	*)
		sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2
		exit 2
		;;
	esac
	shift
done
gpuscope=${GPUSCOPE:-gpuscope}
export PATH=$PATH:/usr/sbin:/sbin

fail() {
	echo "trial.sh: $*" >&2
	exit 1
}

sql() {
	mariadb --no-defaults --socket="$dir/socket" --user="$(id -un)" "$@"
}

# One that has ended may still have its number, until its parent has noticed.
is_running() {
	[ -s "$dir/pid" ] && grep -qs '^State:.[^ZX]' "/proc/$(cat "$dir/pid")/status"
}

stop() {
	is_running || return 0
	kill "$(cat "$dir/pid")"
	while is_running; do sleep 0.1; done
}

create_data() {
	local accounts=(--auth-root-authentication-method=socket --auth-root-socket-user="$(id -un)")
	mariadb-install-db --no-defaults --datadir="$dir/data" --skip-test-db "${as[@]}" "${accounts[@]}" \
		>"$dir/install.log" 2>&1 || fail "mariadb-install-db failed: see $dir/install.log"
}

password_of() {
	[ -s "$dir/$1-password" ] || od -An -N16 -tx1 /dev/urandom | tr -d ' \n' >"$dir/$1-password"
	cat "$dir/$1-password"
}

create_tables() {
	local tables
	tables=$("$gpuscope" agent --print-schema="$schema")
	sql -e 'CREATE DATABASE IF NOT EXISTS gpuscope'
	sql gpuscope <<<"$tables"
	# printf is the shell's own: no password is in the arguments of a process.
	printf "%s\n" "CREATE USER IF NOT EXISTS gpuscope;" "CREATE USER IF NOT EXISTS grafana;" \
		"ALTER USER gpuscope IDENTIFIED BY '$(password_of agent)';" \
		"ALTER USER grafana IDENTIFIED BY '$(password_of grafana)';" \
		"GRANT SELECT ON gpuscope.* TO grafana;" | sql
	# The privileges that the schema names.
	sed -n 's/^-- \(GRANT .*\)/\1/p' <<<"$tables" | sql gpuscope
}

start() {
	is_running && fail "it runs already: $dir"
	for p in mariadbd mariadb-install-db mariadb; do
		command -v "$p" >/dev/null || fail "$p was not found: install mariadb-server-core and mariadb-client-core"
	done
	command -v "$gpuscope" >/dev/null || fail "$gpuscope was not found"
	mkdir -p "$dir"
	# mariadbd does not run as root: as the user without files, by its number.
	as=()
	[ "$(id -u)" != 0 ] || { as=(--user=65534) && chmod 711 "$dir" && install -d -o 65534 "$dir/data" "$dir/run"; }
	mkdir -p "$dir/data" "$dir/run"
	[ -d "$dir/data/mysql" ] || create_data
	# Of a server that was killed; MySQL believes its number also of a process that has ended.
	rm -f "$dir/run/socket" "$dir/run/socket.lock"
	: >"$dir/pid"
	local settings=--no-defaults
	[ ! -e "$dir/my.cnf" ] || settings=--defaults-file=$dir/my.cnf
	mariadbd "$settings" --datadir="$dir/data" --socket="$dir/run/socket" --pid-file="$dir/run/pid" "${as[@]}" \
		--bind-address=127.0.0.1 --port="$port" --skip-name-resolve >"$dir/server.log" 2>&1 &
	echo $! >"$dir/pid"
	disown
	ln -sfn run/socket "$dir/socket"
	until sql -e 'SELECT 1' >/dev/null 2>&1; do
		is_running || fail "mariadbd ended: see $dir/server.log"
		sleep 0.1
	done
	create_tables
	cat <<-EOF
		MariaDB $(sql -BNe 'SELECT VERSION()') is at 127.0.0.1:$port. In the agent's configuration:

		mysql:
		  server: 127.0.0.1:$port
		  password_file: $dir/agent-password
		  schema: $schema

		Grafana reads as user grafana with the password in $dir/grafana-password (packaging/grafana).
		It ends with: $0 --dir $dir stop
	EOF
}

case $command in
start) start ;;
stop) stop ;;
*) fail "start or stop?" ;;
esac
