/* gpuscope devices: whether the control groups of processes allow NVIDIA's devices, and the rules that
 * make them do so (sources/device_cgroup). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "commands/common/cli.h"
#include "core/base/fmt.h"
#include "sources/device_cgroup/device_cgroup.h"

#define PIDS_MAX 1024

enum devices_verb { DEVICES_SHOW = 0, DEVICES_GRANT, DEVICES_REVOKE };

struct devices_options {
	struct gs_device_options device;
	bool held, has_verb;
	enum devices_verb verb;
	int pids[PIDS_MAX];
	unsigned n_pids;
};

static int add_word(void *target, char **words, struct gs_err *err)
{
	static const char *const verbs[] = {"show", "grant", "revoke"};
	struct devices_options *o = target;
	char *end;
	long pid;

	for (size_t i = 0; i < GS_ARRAY_LEN(verbs) && !o->has_verb && !o->n_pids; i++)
		if (strcmp(words[0], verbs[i]) == 0) {
			o->verb = (enum devices_verb)i;
			o->has_verb = true;
			return 0;
		}
	errno = 0;
	pid = strtol(words[0], &end, 10);
	if (*end || end == words[0] || errno || pid <= 0 || pid > INT32_MAX)
		return gs_err_set(err, -EINVAL,
				  "\"%s\" is no process id: show, grant or revoke, then ids",
				  words[0]);
	if (o->n_pids == PIDS_MAX)
		return gs_err_set(err, -EINVAL, "more than %d processes", PIDS_MAX);
	o->pids[o->n_pids++] = (int)pid;
	return 0;
}

static int check_options(void *target, struct gs_err *err)
{
	struct devices_options *o = target;

	o->device.choice = o->held ? GS_DEVICE_HELD : GS_DEVICE_ALL;
	if (o->verb != DEVICES_SHOW && !o->n_pids)
		return gs_err_set(err, -EINVAL,
				  "%s needs process ids; `gpuscope devices` lists "
				  "processes that have NVIDIA devices open",
				  o->verb == DEVICES_GRANT ? "grant" : "revoke");
	return 0;
}

#define AT(member) GS_CLI_AT(struct devices_options, member)

static const struct gs_cli_option option_table[] = {
	{"held", 0, NULL, "only devices that the process has open (default: all)", GS_CLI_FLAG,
	 AT(held)},
	{"ancestors", 0, NULL, "also change cgroups above that forbid the devices", GS_CLI_FLAG,
	 AT(device.ancestors)},
	{"no-drop-in", 0, NULL, "leave systemd's configuration alone", GS_CLI_FLAG,
	 AT(device.no_drop_in)},
	{"host-root", 0, "DIR", "the host's root, in a container (/)", GS_CLI_TEXT,
	 AT(device.host_root)},
	GS_CLI_END};

const struct gs_cli_command gs_cli_devices = {
	.name = "gpuscope devices",
	.usage = "[show] [PID...]\ngrant PID...\nrevoke PID...",
	.about =
		"Whether the cgroup of a process allows it to open NVIDIA devices, and access that "
		"lasts.\nshow changes nothing; without PID it lists all processes that have such a "
		"device open.",
	.notes = "For NVML's \"Unknown Error\" after `systemctl daemon-reload`: gpuscope devices "
		 "grant PID\n"
		 "Exit status: 0 the devices can be opened (revoke: done), 1 failed, or a rule "
		 "still "
		 "forbids them,\n2 wrong usage, 3 not permitted, 4 no such process, or it has no "
		 "device open, or no driver of NVIDIA's.",
	.options = option_table,
	.take_word = add_word,
	.check = check_options,
};

static int exit_of(int r)
{
	return r == -ESRCH || r == -ENODEV ? GS_EXIT_NOTHING : gs_cli_exit_status_of(r);
}

static void print_state(const char *what, enum gs_device_state state, const char *more)
{
	if (*more)
		printf("  %-12s%-14s%s\n", what, gs_device_state_name(state), more);
	else
		printf("  %-12s%s\n", what, gs_device_state_name(state));
}

static void print_result(int pid, const struct gs_device_result *r, enum devices_verb verb)
{
	printf("process %d%s%s\n", pid, r->devices[0] ? ": " : "", r->devices);
	print_state("cgroup v1", r->v1, r->cgroup_v1);
	print_state("cgroup v2", r->v2, r->cgroup_v2);
	if (verb != DEVICES_SHOW)
		print_state("systemd", r->drop_in, r->drop_in_path);
	if (r->reason[0] && !gs_device_is_open(r))
		printf("  %s\n", r->reason);
}

static int work_on_process(const struct devices_options *o, int pid)
{
	static int (*const work[])(int, const struct gs_device_options *, struct gs_device_result *,
				   struct gs_err *) = {gs_device_check, gs_device_grant,
						       gs_device_revoke};
	GS_FREE struct gs_device_result *result = calloc(1, sizeof(*result));
	struct gs_err err = {{0}};
	int r = result ? work[o->verb](pid, &o->device, result, &err) : -ENOMEM;

	if (result && (result->cgroup_v1[0] || result->cgroup_v2[0]))
		print_result(pid, result, o->verb);
	if (r < 0) {
		gs_cli_say("%s", gs_err_text(&err, r));
		return exit_of(r);
	}
	return o->verb == DEVICES_REVOKE || gs_device_is_open(result) ? GS_EXIT_DONE
								      : GS_EXIT_FAILED;
}

static void print_holder(int pid, const struct gs_device_result *r)
{
	bool restricted = r->v1 == GS_DEVICE_ALLOWED || r->v2 == GS_DEVICE_ALLOWED;
	/* The one that has rules. */
	const char *cgroup =
		r->v2 > GS_DEVICE_UNRESTRICTED || !r->cgroup_v1[0] ? r->cgroup_v2 : r->cgroup_v1;

	printf("%-9d%-14s%-24s%s\n", pid,
	       gs_device_is_open(r) ? restricted ? "allowed" : "unrestricted"
	       : r->v1 == GS_DEVICE_FORBIDDEN || r->v2 == GS_DEVICE_FORBIDDEN ? "forbidden"
									      : "unknown",
	       r->devices, cgroup);
	if (r->reason[0] && !gs_device_is_open(r))
		printf("%-9s%s\n", "", r->reason);
}

/* All processes that have a device open: of these it can be said what they will miss. */
static int list_holders(struct devices_options *o)
{
	GS_FREE struct gs_device_result *result = calloc(1, sizeof(*result));
	int status = GS_EXIT_DONE, r;
	struct gs_err err = {{0}};
	unsigned n = 0;

	o->device.choice = GS_DEVICE_HELD;
	r = result ? gs_device_find_holders(&o->device, o->pids, PIDS_MAX, &n, &err) : -ENOMEM;
	if (r < 0) {
		gs_cli_say("%s", gs_err_text(&err, r));
		return exit_of(r);
	}
	if (!n) {
		gs_cli_say("no process has an NVIDIA device open, or none that may be looked at");
		return GS_EXIT_NOTHING;
	}
	printf("%-9s%-14s%-24s%s\n", "PID", "ACCESS", "OPEN DEVICES", "CGROUP");
	for (unsigned i = 0; i < n && i < PIDS_MAX; i++) {
		r = gs_device_check(o->pids[i], &o->device, result, &err);
		if (r == -ESRCH || r == -ENODEV)
			continue; /* it has ended, or closed them */
		if (r < 0)
			gs_cli_say("%s", gs_err_text(&err, r));
		else
			print_holder(o->pids[i], result);
		if (r < 0 || !gs_device_is_open(result))
			status = r < 0 ? exit_of(r) : GS_EXIT_FAILED;
	}
	if (n > PIDS_MAX)
		gs_cli_say("%u more processes have NVIDIA devices open", n - PIDS_MAX);
	return status;
}

int gs_cmd_devices(int argc, char **argv)
{
	struct devices_options o = {.device = {.size = sizeof(o.device)}};
	int status = GS_EXIT_DONE, r;

	if (!gs_cli_parse(&gs_cli_devices, argc, argv, &o, &r))
		return r;
	if (!o.n_pids)
		status = list_holders(&o);
	for (unsigned i = 0; i < o.n_pids; i++) {
		r = work_on_process(&o, o.pids[i]);
		status = status == GS_EXIT_DONE ? r : status;
	}
	if (fflush(stdout) != 0) {
		gs_cli_say("cannot write: %s", strerror(errno));
		return GS_EXIT_FAILED;
	}
	return status;
}
