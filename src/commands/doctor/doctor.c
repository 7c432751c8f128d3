/*
 * gpuscope doctor: checks what works here and how to fix the rest. Most checks are made by analysis/doctor; those of rooms
 * that it may not include (companion libraries, optional libraries, default ports and directories) are made here.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands/common/ask.h"
#include "commands/common/cli.h"
#include "commands/common/library.h"
#include "commands/common/shared.h"
#include "commands/common/summary.h"
#include "commands/doctor/doctor_int.h"
#include "commands/trace/trace_inside.h"
#include "commands/trace/trace_nccl.h"
#include "core/base/mem.h"
#include "net/http_client/http_client.h"
#include "output/metrics_push/push.h"
#include "output/mysql/mysql.h"
#include "output/plot/plot.h"
#include "server/head/head_conf.h"

#define PIDS_MAX 64

struct doctor_options {
	struct gs_doctor_options ask;
	struct doctor_style style;
	int width;
	char *const *command;
	uint32_t pids[PIDS_MAX];
	unsigned n_pids;
};

static int add_pid(void *target, const struct gs_cli_option *option, char *argument,
		   struct gs_err *err)
{
	struct doctor_options *o = target;

	if (o->n_pids == PIDS_MAX || gs_cli_parse_pid(argument, &o->pids[o->n_pids]) < 0)
		return -EINVAL;
	o->n_pids++;
	return 0;
}

static int set_command(void *target, char **words, struct gs_err *err)
{
	((struct doctor_options *)target)->command = words;
	return 0;
}

static int check_options(void *target, struct gs_err *err)
{
	struct doctor_options *o = target;

	return o->command && o->n_pids
		       ? gs_err_set(err, -EINVAL, "give either a command or -p, not both")
		       : 0;
}

#define AT(member) GS_CLI_AT(struct doctor_options, member)

static const struct gs_cli_option option_table[] = {
	{"pid", 'p', "PID[,PID]", "also check these processes", GS_CLI_LIST,
	 .takes = "process ids, separated by commas", .set = add_pid},
	{"verbose", 'v', NULL, "show the details of every check", GS_CLI_FLAG,
	 AT(style.is_verbose)},
	{"format", 0, "FORMAT", "table, json, yaml", GS_CLI_WORD, AT(style.format),
	 .words = "table json yaml"},
	GS_CLI_JSON,
	GS_CLI_WIDTH(struct doctor_options, width),
	GS_CLI_NVML(struct doctor_options, ask.nvml_path),
	GS_CLI_LOG_LEVEL,
	GS_CLI_LOG_TOPIC,
	GS_CLI_END};

const struct gs_cli_command gs_cli_doctor = {
	.name = "gpuscope doctor",
	.usage = "[-p PID[,PID]...]\n"
		 "-- COMMAND [ARGUMENT...]",
	.about =
		"Checks what works on this machine, for this user and with a program; shows what each fault costs and how to fix it. Changes nothing and does not start COMMAND.",
	.notes =
		"Examples:\n"
		"  gpuscope doctor\n"
		"  sudo gpuscope doctor -p 4711\n"
		"  gpuscope doctor --json -- python train.py\n"
		"\n"
		"Exit status: 0 nothing fails (`limited` is no failure), 1 something fails, 2 wrong usage, 4 no such process or command.",
	.brief = "pid verbose format json width nvml",
	.options = option_table,
	.stops_at_word = true,
	.take_word = set_command,
	.check = check_options,
};

/* --- checks of the commands --- */

static void put_library(struct gs_doctor *d, const char *name, bool is_there, const char *found,
			const char *without, const char *package)
{
	bool has_apt = access("/usr/bin/apt-get", X_OK) == 0;
	char mend[128];

	/* package: names for Debian and Fedora, separated by a space. */
	snprintf(mend, sizeof(mend), "sudo %s install %.*s", has_apt ? "apt-get" : "dnf",
		 (int)(has_apt ? strcspn(package, " ") : strlen(package)),
		 has_apt ? package : strchr(package, ' ') + 1);
	gs_doctor_put(
		d, &(struct gs_doctor_row){.group = GS_DOCTOR_LIBRARIES,
					   .state = is_there ? GS_DOCTOR_WORKS : GS_DOCTOR_LIMITED,
					   .name = name,
					   .found = is_there ? "" : found,
					   .without = is_there ? "" : without,
					   .mend = is_there ? "" : mend});
}

static void ask_libraries(struct gs_doctor *d)
{
	const char *curl = gs_http_client_missing(), *mysql = gs_mysql_missing();
	struct gs_err err = {{0}};
	bool cairo = gs_plot_check(&err) == 0;

	put_library(d, "libcurl", !*curl, curl, "no alerts, pushed metrics or spans",
		    "libcurl4 libcurl");
	put_library(d, "libsnappy", gs_push_has_snappy(), "libsnappy.so.1 was not found",
		    "remote write sends about three times as many bytes", "libsnappy1v5 snappy");
	put_library(d, "libmariadb", !*mysql, mysql, "no samples written to MySQL or MariaDB",
		    "libmariadb3 mariadb-connector-c");
	put_library(d, "cairo", cairo, err.text, "no PDF, SVG or PNG plots", "libcairo2 cairo");
}

/* Libraries of --inside, and whether other tools occupy the slots of the CUDA driver and NCCL that it uses. */
static void ask_inside(struct gs_doctor *d)
{
	static const struct {
		const char *name, *door, *without;
	} rows[] = {
		{GS_CLI_COMPANION_CALLS, "--inside=calls",
		 "calls can only be traced by probes, which cost more"},
		{"libgpuscope_companion_gpu.so", "--inside=gpu",
		 "no GPU times of kernels and copies"},
		{"libgpuscope_companion_nccl.so", "--inside=nccl",
		 "NCCL can only be traced by probes"},
		{"libgpuscope_companion_ops.so", "--inside=ops",
		 "operators can only be traced by probes, which cost more"},
		{"libgpuscope_companion_python.so", "--inside=python",
		 "Python functions can only be traced by probes"},
	};
	struct gs_err err = {{0}};
	char path[PATH_MAX];
	int r;

	for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
		r = gs_cli_find_library(rows[i].name, path, sizeof(path), &err);
		gs_doctor_put(
			d,
			&(struct gs_doctor_row){
				.group = GS_DOCTOR_INSIDE,
				.state = r == 0 ? GS_DOCTOR_WORKS : GS_DOCTOR_LIMITED,
				.name = rows[i].door,
				.found = r == 0 ? path : err.text,
				.without = r == 0 ? "" : rows[i].without,
				.mend = r == 0 ? ""
					       : "run make in gpuscope's sources, or install a package of gpuscope"});
	}
	r = trace_inside_check_gpu_free(&err);
	gs_doctor_put(d, &(struct gs_doctor_row){
				 .group = GS_DOCTOR_INSIDE,
				 .state = r == 0 ? GS_DOCTOR_WORKS : GS_DOCTOR_LIMITED,
				 .name = "CUDA injection slot",
				 .found = r == 0 ? "free" : err.text,
				 .without = r == 0 ? "" : "no GPU times of kernels and copies",
				 .mend = r == 0 ? "" : "unset CUDA_INJECTION64_PATH"});
	gs_doctor_ask_nvtx(d, GS_DOCTOR_INSIDE, getenv("NVTX_INJECTION64_PATH"));
	r = trace_nccl_check_free(&err);
	gs_doctor_put(d,
		      &(struct gs_doctor_row){
			      .group = GS_DOCTOR_INSIDE,
			      .state = r == 0 ? GS_DOCTOR_WORKS : GS_DOCTOR_LIMITED,
			      .name = "NCCL profiler slot",
			      .found = r == 0 ? "free" : err.text,
			      .without = r == 0 ? "" : "NCCL can only be traced by probes",
			      .mend = r == 0 ? ""
					     : "unset " TRACE_NCCL_PLUGIN
					       " (or remove it from NCCL's configuration file)"});
}

/* Default ports and directories, as in the man pages. */
static void ask_places(struct gs_doctor *d)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	char data[PATH_MAX];

	/* As gs_folder_state(), which would create the folder. */
	if (geteuid() == 0)
		snprintf(data, sizeof(data), "/var/lib/gpuscope");
	else if (state && state[0] == '/')
		snprintf(data, sizeof(data), "%s/gpuscope", state);
	else
		snprintf(data, sizeof(data), "%s/.local/state/gpuscope", home ? home : "");
	gs_doctor_ask_port(d, "agent's port", (uint16_t)atoi(AGENT_PORT),
			   "the agent cannot listen on its default port",
			   "gpuscope agent --listen 127.0.0.1:0");
	gs_doctor_ask_port(d, "head's port for nodes", (uint16_t)atoi(GS_HEAD_PORT),
			   "a head cannot listen on its default port",
			   "gpuscope head --listen 127.0.0.1:0");
	gs_doctor_ask_port(d, "head's HTTP port", (uint16_t)atoi(GS_HEAD_HTTP_PORT),
			   "a head has no page and no HTTP API", "gpuscope head --http-port PORT");
	gs_doctor_ask_folder(d, "space for recordings", ".",
			     "-o FILE may be incomplete, or cannot be written",
			     "gpuscope trace -o ~/run.gst -- COMMAND");
	gs_doctor_ask_folder(d, "space for head data", data,
			     "a head cannot store the data of its nodes",
			     "gpuscope head --data DIR");
	gs_doctor_ask_folder(d, "space for --inside", "/dev/shm",
			     "--inside does not work; everything is traced by probes",
			     "sudo chmod 1777 /dev/shm");
	if (geteuid() == 0)
		gs_doctor_ask_folder(d, "space for the agent's spool", AGENT_SPOOL_PATH,
				     "samples are lost while the head is away",
				     "set head.spool in the agent's configuration");
}

/* --- the command --- */

static int ask_programs(struct gs_doctor *d, const struct doctor_options *o)
{
	struct gs_err err = {{0}};
	int r = 0;

	if (o->command)
		r = gs_doctor_ask_command(d, o->command[0], environ, &err);
	for (unsigned i = 0; r == 0 && i < o->n_pids; i++)
		r = gs_doctor_ask_process(d, (pid_t)o->pids[i], &err);
	if (r < 0)
		gs_cli_print_message("%s", gs_err_text(&err, r));
	return r == 0                        ? GS_EXIT_DONE
	       : r == -ESRCH || r == -ENOENT ? GS_EXIT_NOTHING
					     : GS_EXIT_FAILED;
}

static bool anything_fails(const struct gs_doctor *d)
{
	const struct gs_doctor_answer *a;

	for (size_t i = 0; (a = gs_doctor_at(d, i)); i++)
		if (a->state == GS_DOCTOR_FAILS)
			return true;
	return false;
}

int gs_cmd_doctor(int argc, char **argv)
{
	struct doctor_options o = {.ask = {.size = sizeof(o.ask)}, .width = -1};
	GS_CLEANUP(gs_doctor_free) struct gs_doctor *d = NULL;
	struct gs_report_summary_style page = {0};
	struct gs_err err = {{0}};
	char spank[PATH_MAX];
	int r;

	if (!gs_cli_parse(&gs_cli_doctor, argc, argv, &o, &r))
		return r;
	gs_cli_summary_page(stdout, NULL, false, o.width, &page);
	o.style.width = page.width;
	(void)gs_cli_find_library("spank_gpuscope.so", spank, sizeof(spank), &err);
	o.ask.spank_path = spank;
	if (gs_doctor_new(&o.ask, &d) < 0) {
		gs_cli_print_message("out of memory");
		return GS_EXIT_FAILED;
	}
	r = ask_programs(d, &o);
	if (r != GS_EXIT_DONE)
		return r;
	gs_doctor_ask_machine(d);
	ask_inside(d);
	ask_libraries(d);
	ask_places(d);
	r = doctor_show(d, &o.style, stdout);
	if (r < 0) {
		gs_cli_print_message("cannot write: %s", strerror(-r));
		return GS_EXIT_FAILED;
	}
	return anything_fails(d) ? GS_EXIT_FAILED : GS_EXIT_DONE;
}
