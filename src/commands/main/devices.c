/* gpuscope devices: whether the control groups of processes allow NVIDIA's devices, and the rules that
 * make them do so (sources/device_cgroup). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "commands/common/cli.h"
#include "commands/common/shared.h"
#include "core/base/fmt.h"
#include "core/near/near.h"
#include "core/text/doc.h"
#include "sources/device_cgroup/device_cgroup.h"

#define PIDS_MAX 1024

enum devices_verb { DEVICES_SHOW = 0, DEVICES_GRANT, DEVICES_REVOKE };
enum devices_format { DEVICES_TABLE = 0, DEVICES_JSON, DEVICES_YAML };

struct devices_options {
	struct gs_device_options device;
	bool held, has_verb;
	enum devices_verb verb;
	enum devices_format format;
	int pids[PIDS_MAX];
	unsigned n_pids;
	struct gs_doc *doc; /* NULL: a table */
	unsigned n_put;     /* processes in the document */
};

static const struct gs_cli_subcommand *devices_subcommand_at(size_t i)
{
	static const struct gs_cli_subcommand verbs[] = {
		[DEVICES_SHOW] = {"show", "[PID...]",
				  "show access (of all processes with an open device)"},
		[DEVICES_GRANT] = {"grant", "PID...", "allow NVIDIA devices in their cgroups"},
		[DEVICES_REVOKE] = {"revoke", "PID...", "undo grant"},
	};

	return i < GS_ARRAY_LEN(verbs) ? &verbs[i] : NULL;
}

static int refuse_word(const char *word, struct gs_err *err)
{
	struct gs_near near;
	char names[40];

	gs_near_init(&near, word);
	for (size_t i = 0; devices_subcommand_at(i); i++)
		gs_near_add(&near, devices_subcommand_at(i)->name);
	return near.name
		       ? gs_cli_refuse_subcommand(&gs_cli_devices, word, err)
		       : gs_err_set(err, -EINVAL,
				    "\"%s\" is not a process id; give %s, then process ids", word,
				    gs_cli_list_subcommands(&gs_cli_devices, names, sizeof(names)));
}

static int add_word(void *target, char **words, struct gs_err *err)
{
	struct devices_options *o = target;
	uint32_t pid;
	int i = o->has_verb || o->n_pids ? -1 : gs_cli_find_subcommand(&gs_cli_devices, words[0]);

	if (i >= 0) {
		o->verb = (enum devices_verb)i;
		o->has_verb = true;
		return 0;
	}
	if (gs_cli_parse_pid(words[0], &pid) < 0)
		return refuse_word(words[0], err);
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
		return gs_err_set(
			err, -EINVAL,
			"%s needs process ids; `gpuscope devices` lists processes that have NVIDIA devices open",
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
	{"format", 0, "FORMAT", "table, json, yaml", GS_CLI_WORD, AT(format),
	 .words = "table json yaml"},
	GS_CLI_JSON,
	GS_CLI_END};

const struct gs_cli_command gs_cli_devices = {
	.name = "gpuscope devices",
	.usage = "[COMMAND] [PID...]",
	.subcommand_at = devices_subcommand_at,
	.about =
		"Shows whether the cgroup of a process allows NVIDIA devices, and grants lasting access.",
	.notes =
		"For NVML's \"Unknown Error\" after `systemctl daemon-reload`: gpuscope devices grant PID\n"
		"Exit status: 0 the devices can be opened (revoke: done), 1 failed, or a rule still forbids them,\n"
		"2 wrong usage, 3 not permitted, 4 no such process, no open device, or no NVIDIA driver.",
	.brief = "held ancestors no-drop-in host-root format json",
	.options = option_table,
	.groups = {GS_CLI_LOG_GROUP},
	.take_word = add_word,
	.check = check_options,
};

static int exit_of(int r)
{
	return r == -ESRCH || r == -ENODEV ? GS_EXIT_NOTHING : gs_cli_exit_status_of(r);
}

/* In a word, for programs and for the list of holders. */
static const char *access_of(const struct gs_device_result *r)
{
	bool restricted = r->v1 == GS_DEVICE_ALLOWED || r->v1 == GS_DEVICE_GRANTED ||
			  r->v2 == GS_DEVICE_ALLOWED || r->v2 == GS_DEVICE_GRANTED;

	if (gs_device_is_open(r))
		return restricted ? "allowed" : "unrestricted";
	return r->v1 == GS_DEVICE_FORBIDDEN || r->v2 == GS_DEVICE_FORBIDDEN ? "forbidden"
									    : "unknown";
}

static void put_state(struct gs_doc *doc, const char *key, enum gs_device_state state,
		      const char *path_key, const char *path)
{
	gs_doc_begin_flat(doc, key);
	gs_doc_put_text(doc, "state", gs_device_state_name(state));
	gs_doc_put_text(doc, path_key, path);
	gs_doc_end(doc);
}

/* "195:* 511:0" as a list. */
static void put_devices(struct gs_doc *doc, const char *devices)
{
	char text[sizeof(((struct gs_device_result *)NULL)->devices)], *at = text, *word;
	size_t n = *devices != '\0';

	for (const char *p = devices; *p; p++)
		n += *p == ' ';
	snprintf(text, sizeof(text), "%s", devices);
	gs_doc_begin_list(doc, "devices", n);
	while (n && (word = strsep(&at, " ")) != NULL)
		gs_doc_put_text(doc, NULL, word);
	gs_doc_end(doc);
}

/* error: NULL, or why nothing or not all is known of the process. */
static void put_result(struct devices_options *o, int pid, const struct gs_device_result *r,
		       const char *error)
{
	enum devices_verb verb = o->verb;
	struct gs_doc *doc = o->doc;

	if (!o->n_put++)
		gs_doc_begin_list(doc, "processes", 1);
	gs_doc_begin_map(doc, NULL);
	gs_doc_put_u64(doc, "pid", (uint64_t)pid);
	if (r && (r->cgroup_v1[0] || r->cgroup_v2[0])) {
		if (verb != DEVICES_REVOKE) {
			gs_doc_put_text(doc, "access", error ? "unknown" : access_of(r));
			put_devices(doc, r->devices);
		}
		put_state(doc, "cgroup_v1", r->v1, "path", r->cgroup_v1);
		put_state(doc, "cgroup_v2", r->v2, "path", r->cgroup_v2);
		if (verb != DEVICES_SHOW) {
			put_state(doc, "systemd", r->drop_in, "file", r->drop_in_path);
			gs_doc_put_u64(doc, "changes", r->n_changes);
		}
		gs_doc_put_text(doc, "reason", gs_device_is_open(r) ? "" : r->reason);
	}
	gs_doc_put_text(doc, "error", error ? error : "");
	gs_doc_end(doc);
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

static int work_on_process(struct devices_options *o, int pid)
{
	static int (*const work[])(int, const struct gs_device_options *, struct gs_device_result *,
				   struct gs_err *) = {gs_device_check, gs_device_grant,
						       gs_device_revoke};
	GS_FREE struct gs_device_result *result = calloc(1, sizeof(*result));
	struct gs_err err = {{0}};
	int r = result ? work[o->verb](pid, &o->device, result, &err) : -ENOMEM;

	if (o->doc)
		put_result(o, pid, result, r < 0 ? gs_err_text(&err, r) : NULL);
	else if (result && (result->cgroup_v1[0] || result->cgroup_v2[0]))
		print_result(pid, result, o->verb);
	if (r < 0) {
		gs_cli_print_message("%s", gs_err_text(&err, r));
		return exit_of(r);
	}
	return o->verb == DEVICES_REVOKE || gs_device_is_open(result) ? GS_EXIT_DONE
								      : GS_EXIT_FAILED;
}

static void print_holder(int pid, const struct gs_device_result *r)
{
	/* The one that has rules. */
	const char *cgroup =
		r->v2 > GS_DEVICE_UNRESTRICTED || !r->cgroup_v1[0] ? r->cgroup_v2 : r->cgroup_v1;

	printf("%-9d%-14s%-24s%s\n", pid, access_of(r), r->devices, cgroup);
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
		gs_cli_print_message("%s", gs_err_text(&err, r));
		return exit_of(r);
	}
	if (!n) {
		gs_cli_print_message(
			"no process has an NVIDIA device open, or this user may not see it");
		return GS_EXIT_NOTHING;
	}
	if (!o->doc)
		printf("%-9s%-14s%-24s%s\n", "PID", "ACCESS", "OPEN DEVICES", "CGROUP");
	for (unsigned i = 0; i < n && i < PIDS_MAX; i++) {
		r = gs_device_check(o->pids[i], &o->device, result, &err);
		if (r == -ESRCH || r == -ENODEV)
			continue; /* it has ended, or closed them */
		if (r < 0)
			gs_cli_print_message("%s", gs_err_text(&err, r));
		if (o->doc)
			put_result(o, o->pids[i], result, r < 0 ? gs_err_text(&err, r) : NULL);
		else if (r == 0)
			print_holder(o->pids[i], result);
		if (r < 0 || !gs_device_is_open(result))
			status = r < 0 ? exit_of(r) : GS_EXIT_FAILED;
	}
	if (n > PIDS_MAX)
		gs_cli_print_message("%u more processes have NVIDIA devices open", n - PIDS_MAX);
	return status;
}

static int work_on_all(struct devices_options *o)
{
	int status = GS_EXIT_DONE, r;

	if (!o->n_pids)
		return list_holders(o);
	for (unsigned i = 0; i < o->n_pids; i++) {
		r = work_on_process(o, o->pids[i]);
		status = status == GS_EXIT_DONE ? r : status;
	}
	return status;
}

int gs_cmd_devices(int argc, char **argv)
{
	struct devices_options o = {.device = {.size = sizeof(o.device)}};
	struct gs_pen pen;
	struct gs_doc doc = {.ops = &gs_doc_json, .pen = &pen};
	int status, r;

	if (!gs_cli_parse(&gs_cli_devices, argc, argv, &o, &r))
		return r;
	gs_pen_open(&pen, stdout);
	if (o.format == DEVICES_YAML)
		doc.ops = &gs_doc_yaml;
	if (o.format != DEVICES_TABLE) {
		o.doc = &doc;
		gs_doc_begin_map(&doc, NULL);
		gs_doc_put_version(&doc);
	}
	status = work_on_all(&o);
	if (o.doc) {
		if (!o.n_put)
			gs_doc_begin_list(&doc, "processes", 0);
		gs_doc_end(&doc);
		gs_doc_end(&doc);
		gs_pen_puts(&pen, "\n");
	}
	r = gs_pen_close(&pen);
	if (r < 0) {
		gs_cli_print_message("cannot write: %s", strerror(-r));
		return GS_EXIT_FAILED;
	}
	return status;
}
