/* gpuscope job: what jobs do with this machine, how well, and what to change. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/foreign.h"
#include "core/base/fmt.h"
#include "core/base/log.h"
#include "core/base/output.h"
#include "core/sandbox/sandbox.h"
#include "commands/common/cli.h"
#include "commands/common/node_findings.h"
#include "commands/common/show_findings.h"
#include "commands/common/shared.h"
#include "commands/job/job.h"
#include "commands/job/job_alert.h"
#include "commands/job/job_detach.h"
#include "commands/job/job_findings.h"
#include "commands/job/job_head.h"
#include "analysis/job_accounting/job_id.h"
#include "commands/job/job_linger.h"
#include "commands/common/summary.h"
#include "sources/identity/identity.h"

/* A recorder writes what it has so often that little is lost when it is killed. */
#define STATUS_INTERRUPTED 130 /* as shells have it for SIGINT */
#define SAVE_NS            3000000000ull
#define SAVE_FAILED_NS     60000000000ull

static volatile sig_atomic_t stop;

static void on_stop(int signal_number)
{
	(void)signal_number;
	stop = 1;
}

static int select_by(struct job_options *o, enum gs_accounting_selection by, struct gs_err *err)
{
	if (o->measure.by != GS_ACCOUNTING_OF_ALL && o->measure.by != by)
		return gs_err_set(err, -EINVAL, "one of --job-id, --user, --cgroup and --pid");
	o->measure.by = by;
	return 0;
}

static int set_ids(void *target, const struct gs_cli_option *option, char *argument,
		   struct gs_err *err)
{
	struct job_options *o = target;
	char *piece, *end;

	for (piece = argument; piece; piece = end) {
		end = gs_accounting_job_id_end(piece);
		if (*end)
			*end++ = '\0';
		else
			end = NULL;
		if (!*piece)
			continue;
		if (!gs_accounting_job_id_is(piece))
			return -EINVAL;
		if (o->measure.n_select == GS_ACCOUNTING_SELECT_MAX)
			return gs_err_set(err, -EINVAL, "--job-id takes at most %d jobs",
					  GS_ACCOUNTING_SELECT_MAX);
		o->measure.ids[o->measure.n_select++] = piece;
	}
	return o->measure.n_select ? select_by(o, GS_ACCOUNTING_OF_IDS, err) : -EINVAL;
}

static int add_pid(void *target, const struct gs_cli_option *option, char *argument,
		   struct gs_err *err)
{
	struct job_options *o = target;

	if (o->measure.n_select == GS_ACCOUNTING_SELECT_MAX)
		return gs_err_set(err, -EINVAL, "--pid takes at most %d processes",
				  GS_ACCOUNTING_SELECT_MAX);
	if (gs_cli_parse_pid(argument, &o->measure.pids[o->measure.n_select++]) < 0)
		return gs_err_set(err, -EINVAL, "--pid takes the ids of processes, not \"%s\"",
				  argument);
	return select_by(o, GS_ACCOUNTING_OF_PIDS, err);
}

static int set_parent(void *target, const struct gs_cli_option *option, char *argument,
		      struct gs_err *err)
{
	return gs_cli_parse_pid(argument, &((struct job_options *)target)->measure.parent_pid);
}

static int set_user(void *target, const struct gs_cli_option *option, char *argument,
		    struct gs_err *err)
{
	struct job_options *o = target;

	if (gs_cli_parse_user(argument, &o->measure.uid) < 0)
		return gs_err_set(err, -EINVAL, "no user \"%s\" here", argument);
	o->measure.user = argument;
	return select_by(o, GS_ACCOUNTING_OF_USER, err);
}

/* The path below the mount of cgroups; people give it with the mount as often. */
static int set_cgroup(void *target, const struct gs_cli_option *option, char *argument,
		      struct gs_err *err)
{
	struct job_options *o = target;
	const char *arg = argument;
	static const char mount[] = "/sys/fs/cgroup";
	size_t n;

	if (strncmp(arg, mount, sizeof(mount) - 1) == 0) {
		static const char *const v1[] = {"/unified", "/memory",  "/cpu,cpuacct", "/cpuacct",
						 "/cpu",     "/freezer", "/systemd",     "/pids",
						 "/cpuset",  "/devices", "/blkio"};

		arg += sizeof(mount) - 1;
		for (size_t i = 0; i < GS_ARRAY_LEN(v1); i++)
			if (strncmp(arg, v1[i], strlen(v1[i])) == 0 && arg[strlen(v1[i])] == '/') {
				arg += strlen(v1[i]);
				break;
			}
	}
	n = strlen(arg);
	if (arg[0] != '/' || n < 2 || arg[n - 1] == '/' || n >= 64 * 8)
		return -EINVAL;
	o->measure.cgroup = arg;
	return select_by(o, GS_ACCOUNTING_OF_CGROUP, err);
}

static int add_setting(void *target, const struct gs_cli_option *option, char *argument,
		       struct gs_err *err)
{
	return gs_findings_add_setting(&((struct job_options *)target)->detectors, argument, err);
}

static int set_filter(void *target, const struct gs_cli_option *option, char *argument,
		      struct gs_err *err)
{
	return job_filter_parse(target, argument);
}

static int add_output(void *target, const struct gs_cli_option *option, char *argument,
		      struct gs_err *err)
{
	struct job_options *o = target;

	if (o->n_outputs == JOB_OUTPUTS_MAX)
		return gs_err_set(err, -EINVAL, "--output may be given %d times at most",
				  JOB_OUTPUTS_MAX);
	o->output[o->n_outputs++] = argument;
	return *argument ? 0 : -EINVAL;
}

static int set_format(void *target, const struct gs_cli_option *option, char *argument,
		      struct gs_err *err)
{
	return gs_job_report_format_parse(argument, &((struct job_options *)target)->format);
}

static int refuse_word(void *target, char **words, struct gs_err *err)
{
	return gs_err_set(err, -EINVAL,
			  "no argument \"%s\": select jobs with -j, -u, --cgroup or -p", words[0]);
}

static int check_options(void *target, struct gs_err *err)
{
	const struct job_options *o = target;

	if (o->measure.parent_pid &&
	    (o->measure.by != GS_ACCOUNTING_OF_IDS || o->measure.n_select != 1))
		return gs_err_set(err, -EINVAL, "--parent-pid needs one job: -j ID");
	return 0;
}

static void pause_for(uint64_t ns)
{
	struct timespec ts = {.tv_sec = (time_t)(ns / 1000000000),
			      .tv_nsec = (long)(ns % 1000000000)};

	nanosleep(&ts, NULL); /* a signal ends it early, as it should */
}

static struct gs_job_report_style style_of(const struct job_options *o, bool to_terminal)
{
	struct gs_report_summary_style terminal = {.size = sizeof(terminal)};
	struct gs_job_report_style style = {
		.format = o->format,
		.verbose = o->verbose,
		.syscalls = o->measure.conf.syscalls,
		.advice = o->measure.conf.advise,
		.precision = (int)o->measure.conf.precision,
		.n_jobs = (unsigned)o->measure.conf.jobs_displayed,
	};

	if (to_terminal) {
		gs_cli_summary_page(stdout, NULL, true, -1, &terminal);
		style.width = terminal.width;
		style.color = terminal.color;
	}
	return style;
}

/* The table again on the same place of a terminal; one below the other in a file. */
static int show_live(const struct job_options *o, struct gs_accounting_measure *m,
		     const struct gs_rules *rules)
{
	struct gs_job_report_style style = style_of(o, true);
	struct gs_job_report_session session;
	int r = gs_accounting_measure_report(m, rules, &session);

	if (r < 0)
		return r;
	if (isatty(STDOUT_FILENO))
		fputs("\033[H\033[J", stdout);
	r = gs_job_report_live_write(stdout, &session, &style);
	gs_job_report_session_fini(&session);
	return r;
}

static int evaluate_alerts(struct gs_accounting_measure *m, const struct gs_rules *rules,
			   struct job_alert *alert, uint64_t now_ns)
{
	struct gs_job_report_session session;
	int r = gs_accounting_measure_recent(m, rules, job_alert_window_ns(alert), &session);

	if (r < 0)
		return r;
	job_alert_poll(alert, &session, now_ns);
	gs_job_report_session_fini(&session);
	return 0;
}

static bool is_stopped(void *ctx)
{
	return stop;
}

static int write_one(const struct job_options *o, const struct gs_job_report_session *session,
		     const char *path, enum gs_job_report_format format)
{
	struct gs_job_report_style style = style_of(o, !path);
	struct gs_output file = GS_OUTPUT_INIT;
	struct gs_err err = {{0}};
	FILE *out = stdout;
	/* Root measures jobs of others. */
	unsigned flags = (geteuid() == 0 ? GS_OUTPUT_PRIVATE : 0u) |
			 (session->unfinished ? GS_OUTPUT_NO_SYNC : 0u);
	int r = path ? gs_output_open(path, flags, &file, &err) : 0;

	if (r == 0 && path)
		out = gs_output_stream(&file);
	style.format = format;
	if (r == 0)
		r = out ? gs_job_report_write(out, session, &style) : -ENOMEM;
	r = gs_output_close(&file, r, &err);
	if (r < 0 && err.text[0])
		gs_cli_print_message("%s", err.text);
	else if (r < 0)
		gs_cli_print_message("cannot write %s: %s", path ? path : "the report",
				     strerror(-r));
	else if (path && !session->unfinished && !o->detach)
		gs_cli_report_written(path, format == GS_JOB_JSON ? GS_CLI_READS_JOBS : NULL);
	return r < 0 ? GS_EXIT_FAILED : GS_EXIT_DONE;
}

static int write_report(const struct job_options *o, const struct gs_job_report_session *session)
{
	int status = GS_EXIT_DONE;

	if (!o->n_outputs) /* of who has no terminal the head alone has it */
		return o->detach ? GS_EXIT_DONE : write_one(o, session, NULL, o->format);
	for (size_t i = 0; i < o->n_outputs; i++)
		if (write_one(o, session, o->output[i], o->output_format[i]) != GS_EXIT_DONE)
			status = GS_EXIT_FAILED;
	return status;
}

/* A sample that cannot be had is missing, no more. gpus NULL: there are none. */
static void take_findings(struct gs_node_findings *findings, const struct gs_gpu_snapshot *gpus)
{
	if (gpus)
		(void)gs_findings_node_take(findings, gpus);
}

/* What was measured so far, with findings. */
static int make_report(const struct job_options *o, struct gs_accounting_measure *m,
		       const struct gs_rules *rules, struct gs_job_report_session *ret_session)
{
	int r = gs_accounting_measure_report(m, rules, ret_session);

	if (r < 0)
		return r;
	ret_session->put_more = job_findings_put;
	ret_session->more_ctx = o->findings;
	return 0;
}

/* What a recorder has so far: what is left of its measuring when it is killed. False: it could not
 * be written. */
static bool save_report(const struct job_options *o, struct gs_accounting_measure *m,
			const struct gs_rules *rules, struct job_head *head)
{
	struct gs_job_report_session session;
	bool saved = true;
	int r;

	if (!gs_accounting_measure_jobs(m))
		return true;
	r = make_report(o, m, rules, &session);
	if (r < 0) {
		gs_cli_print_message("cannot save the report: %s", strerror(-r));
		return false;
	}
	session.unfinished = true;
	if (o->n_outputs)
		saved = write_report(o, &session) == GS_EXIT_DONE;
	saved &= job_head_save(head, &session) == 0;
	gs_job_report_session_fini(&session);
	return saved;
}

static bool is_over(const struct job_options *o, const struct gs_accounting_measure *m,
		    struct job_linger *linger)
{
	const char *why;

	/* A job may have nothing running between two of its steps. */
	if (linger) {
		if (!job_linger_is_over(linger, gs_accounting_measure_alive(m), &why))
			return false;
		if (why)
			gs_cli_print_message("%s", why);
		return true;
	}
	return o->measure.by != GS_ACCOUNTING_OF_ALL && o->measure.by != GS_ACCOUNTING_OF_USER &&
	       gs_accounting_measure_jobs(m) && !gs_accounting_measure_alive(m);
}

/* Until the time is over, the jobs have ended, or a signal. linger: of a recorder, else NULL. */
static int watch_jobs(const struct job_options *o, struct gs_accounting_measure *m,
		      const struct gs_rules *rules, struct job_alert *alert, struct gs_guard *guard,
		      struct job_linger *linger, struct job_head *head)
{
	uint64_t start_ns = gs_clock_mono_ns(), shown_ns = start_ns, now_ns = start_ns;
	uint64_t save_ns = start_ns + SAVE_NS;
	bool live = o->measure.live;
	int r = 0;

	if (o->duration_ns)
		gs_guard_set_deadline(guard, start_ns + o->duration_ns);
	while (!stop && r == 0) {
		uint64_t pause_ns = gs_accounting_measure_pause_ns(m);

		if (o->duration_ns && now_ns - start_ns >= o->duration_ns)
			break;
		if (o->duration_ns && pause_ns > o->duration_ns - (now_ns - start_ns))
			pause_ns = o->duration_ns - (now_ns - start_ns);
		pause_for(pause_ns);
		gs_accounting_measure_poll(m);
		take_findings(o->findings, gs_accounting_measure_gpus(m));
		now_ns = gs_clock_mono_ns();
		if (live && now_ns - shown_ns >= (uint64_t)o->measure.conf.refresh_s * 1000000000) {
			shown_ns = now_ns;
			r = show_live(o, m, rules);
			/* Who reads the table is gone; the report has another reader. */
			if (r < 0 && (o->n_outputs || o->head.n_addresses)) {
				gs_cli_print_message(
					"cannot write the live table: %s; measurement continues",
					strerror(-r));
				live = false;
				r = 0;
			}
		}
		if (r == 0 && now_ns >= job_alert_next(alert))
			r = evaluate_alerts(m, rules, alert, now_ns);
		if (r == 0 && linger && now_ns >= save_ns)
			save_ns = now_ns +
				  (save_report(o, m, rules, head) ? SAVE_NS : SAVE_FAILED_NS);
		if (is_over(o, m, linger))
			break;
	}
	return r;
}

static void report_nothing_found(const struct job_options *o)
{
	switch (o->measure.by) {
	case GS_ACCOUNTING_OF_IDS:
		gs_cli_print_message(
			"no process of job %s%s here: is it running, and on this node?",
			o->measure.ids[0], o->measure.n_select > 1 ? " (or the others)" : "");
		break;
	case GS_ACCOUNTING_OF_USER:
		gs_cli_print_message("no process of user %s here", o->measure.user);
		break;
	case GS_ACCOUNTING_OF_CGROUP:
		gs_cli_print_message(
			"no process in the cgroup %s here (paths are those of /proc/PID/cgroup)",
			o->measure.cgroup);
		break;
	case GS_ACCOUNTING_OF_PIDS:
		gs_cli_print_message("no process %u here", o->measure.pids[0]);
		break;
	default:
		gs_cli_print_message(
			"no job here; use -u USER or -p PID for processes that no batch system started");
	}
}

/* Of several, some may not be here: that is reported, not left out. */
static void report_missing(const struct job_options *o, uint64_t found)
{
	for (size_t i = 0; o->measure.n_select > 1 && i < o->measure.n_select; i++) {
		if (found >> i & 1)
			continue;
		if (o->measure.by == GS_ACCOUNTING_OF_IDS)
			gs_cli_print_message("no process of job %s was here", o->measure.ids[i]);
		else
			gs_cli_print_message("no process %u was here", o->measure.pids[i]);
	}
}

static int measure_jobs(const struct job_options *o, const struct gs_rules *rules,
			struct job_alert *alert)
{
	const struct gs_guard_options limits = {.size = sizeof(limits), .stop = is_stopped};
	GS_CLEANUP(gs_guard_free) struct gs_guard *guard = NULL;
	GS_CLEANUP(to_head_abandon) struct to_head *to = NULL;
	GS_CLEANUP(job_head_fini) struct job_head head = {0};
	GS_CLEANUP(job_linger_free) struct job_linger *linger = NULL;
	struct gs_accounting_measure *m = NULL;
	struct gs_job_report_session session;
	struct gs_err err = {{0}};
	int r = gs_guard_new(&limits, &guard), status;

	gs_guard_enter(guard);
	if (r == 0 && o->head.n_addresses)
		r = to_head_open(&o->head, GS_UPLINK_JOBS, "gpuscope job", &to, &err);
	head.to = to;

	if (r == 0 && o->detach)
		r = job_linger_new(o, &linger, &err);
	if (r == 0)
		r = gs_accounting_measure_open(&o->measure, &m, &err);
	if (r < 0) {
		gs_cli_print_failure(&err, r);
		return gs_cli_exit_status_of(r);
	}
	/* A user's or a machine's processes may come later. */
	if ((!o->detach || o->measure.by == GS_ACCOUNTING_OF_PIDS) &&
	    !gs_accounting_measure_jobs(m) &&
	    (o->measure.by != GS_ACCOUNTING_OF_ALL || !o->duration_ns)) {
		report_nothing_found(o);
		gs_accounting_measure_close(&m);
		return GS_EXIT_NOTHING;
	}
	if (o->detach)
		job_detach_ready(o->detach);
	r = watch_jobs(o, m, rules, alert, guard, linger, &head);
	gs_accounting_measure_settle(m);
	if (o->detach && !gs_accounting_measure_jobs(m)) {
		report_nothing_found(o);
		gs_accounting_measure_close(&m);
		return GS_EXIT_NOTHING;
	}
	if (r == 0)
		r = make_report(o, m, rules, &session);
	if (r < 0) {
		gs_cli_print_message("cannot report: %s", strerror(-r));
		gs_accounting_measure_close(&m);
		return GS_EXIT_FAILED;
	}
	report_missing(o, gs_accounting_measure_found(m));
	status = write_report(o, &session);
	if (to && (job_head_push(&head, &session) < 0 || to_head_finish(&to) < 0))
		status = GS_EXIT_FAILED;
	gs_job_report_session_fini(&session);
	gs_accounting_measure_close(&m);
	return status;
}

static int print_config(void)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf out = GS_BUF_INIT(1u << 20);

	if (gs_conf_print(gs_job_conf_schema(), &out) < 0 ||
	    fwrite(out.data, 1, out.bytes, stdout) != out.bytes || fflush(stdout) != 0)
		return GS_EXIT_FAILED;
	return GS_EXIT_DONE;
}

/* 0, or an exit status after having said why. */
static int load_config(struct job_options *o)
{
	const struct gs_conf_schema *schema = gs_job_conf_schema();
	char foreign[512];
	struct gs_err err = {{0}};
	int r;

	gs_conf_defaults(schema, &o->measure.conf);
	if (!o->config)
		return 0;
	r = gs_conf_load(schema, o->config, &o->measure.conf, gs_cli_print_text, &err);
	if (r < 0) {
		gs_cli_print_message("%s", gs_err_text(&err, r));
		return r == -EINVAL ? GS_EXIT_USAGE : GS_EXIT_FAILED;
	}
	gs_job_conf_foreign(&o->measure.conf, foreign, sizeof(foreign));
	/* --alerts of the same file reports what neither of the two reads. */
	if (foreign[0] && !(o->alerts && strcmp(o->alerts, o->config) == 0))
		gs_cli_print_message("%s: ignoring keys unrelated to gpuscope job: %s", o->config,
				     foreign);
	return 0;
}

/* The name of a report's file says its format, unless it was given. */
static int format_of(const struct job_options *o, const char *path, enum gs_job_report_format *ret)
{
	static const enum gs_job_report_format by_choice[] = {GS_JOB_JSON, GS_JOB_CSV, GS_JOB_YAML,
							      GS_JOB_TABLE};

	*ret = o->format;
	if (o->format_given)
		return 0;
	if (gs_job_report_format_of_path(path, ret) == 0)
		return 0;
	if (strchr(path, '.') && !o->config) {
		gs_cli_print_message(
			"%s: unknown output suffix: .json, .csv, .yaml, .html or .txt, or --format",
			path);
		return GS_EXIT_USAGE;
	}
	*ret = by_choice[o->measure.conf.format];
	return 0;
}

/* Before anything is measured: a report that cannot be written would be lost at its end. */
static bool is_writable(const char *path)
{
	char folder[4096];
	struct stat st;
	int r = -1;

	if (stat(path, &st) == 0) {
		errno = EISDIR;
		if (!S_ISDIR(st.st_mode))
			r = access(path, W_OK);
	} else if (errno == ENOENT) {
		const char *slash = strrchr(path, '/');

		snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path + 1) : 1,
			 slash ? path : ".");
		r = access(folder, W_OK);
	}
	if (r < 0)
		gs_cli_print_message("cannot write %s: %s", path, strerror(errno));
	return r == 0;
}

static int choose_formats(struct job_options *o)
{
	int status = 0;

	if (!o->format_given)
		o->format = GS_JOB_TABLE;
	for (size_t i = 0; status == 0 && i < o->n_outputs; i++) {
		status = format_of(o, o->output[i], &o->output_format[i]);
		if (status == 0 && o->detach && o->output[i][0] != '/') {
			gs_cli_print_message("%s: with --detach, -o takes an absolute path",
					     o->output[i]);
			status = GS_EXIT_USAGE;
		}
	}
	for (size_t i = 0; status == 0 && i < o->n_outputs; i++)
		if (!is_writable(o->output[i]))
			status = GS_EXIT_FAILED;
	if (o->detach &&
	    (o->detach[0] != '/' || o->measure.live || (!o->n_outputs && !o->head.n_addresses))) {
		gs_cli_print_message(
			"--detach takes an absolute path, needs -o or --head, and excludes --real-time: it has no terminal");
		status = GS_EXIT_USAGE;
	}
	return status;
}

#define AT(member) GS_CLI_AT(struct job_options, member)

static const struct gs_cli_option option_table[] = {
	GS_CLI_TITLE("Job selection (default: all jobs on this machine):"),
	{"job-id", 'j', "ID[,ID]", "Slurm jobs: 4711, 4711_3 (array task), 4711+1 (het)",
	 GS_CLI_SET, .takes = "ids such as 4711, 4711_3, 4711_[1-3,7] or 4711+1", .set = set_ids},
	{"user", 'u', "USER", "a user's jobs, and processes outside of jobs", GS_CLI_SET,
	 .set = set_user},
	{"cgroup", 0, "PATH", "processes in a cgroup and below it", GS_CLI_SET,
	 .takes = "a path such as /system.slice/ssh.service", .set = set_cgroup},
	{"pid", 'p', "PID[,PID]", "processes with all their descendants", GS_CLI_LIST,
	 .takes = "process ids", .set = add_pid},
	GS_CLI_TITLE("Measurement:"),
	{"duration", 'd', "TIME", "stop after this time (until the jobs end, or Ctrl-C)",
	 GS_CLI_TIME, AT(duration_ns), .min = 1},
	{"filter", 0, "GROUP[,GROUP]", "metric groups: all, syscall, sched, io, net, cuda, mpi",
	 GS_CLI_SET, GS_CLI_GIVEN(struct job_options, filter_given),
	 .words = "all syscall sched io net cuda mpi",
	 .takes = "all, syscall, sched, io, net, cuda, mpi, or several with commas",
	 .set = set_filter},
	{"real-time", 'r', NULL, "show a live table, a line for each job", GS_CLI_FLAG,
	 AT(measure.live)},
	GS_CLI_COMMANDS,
	GS_CLI_NO_ARGS,
	GS_CLI_SETTING,
	GS_CLI_NVML(struct job_options, measure.nvml),
	GS_CLI_TITLE("Output:"),
	{"output", 'o', "FILE", "write it to a file, format by suffix; may be repeated", GS_CLI_SET,
	 .takes = "a file", .set = add_output},
	{"format", 0, "FORMAT", "table, json, csv, yaml, html", GS_CLI_SET,
	 GS_CLI_GIVEN(struct job_options, format_given), .words = "table json csv yaml html",
	 .set = set_format},
	GS_CLI_JSON,
	{"verbose", 'v', NULL, "show every figure and system call in tables", GS_CLI_FLAG,
	 AT(verbose)},
	GS_CLI_QUIET,
	GS_CLI_TITLE("Background recorders:"),
	{"detach", 0, "PIDFILE", "record in the background until the job is over", GS_CLI_TEXT,
	 AT(detach)},
	{"parent-pid", 0, "PID", "with -j: parent of the job's processes", GS_CLI_SET,
	 .takes = "a process id", .set = set_parent},
	{"linger", 0, "TIME", "with --detach: idle time before it exits (10m)", GS_CLI_TIME,
	 AT(linger_ns), .min = 1},
	{"stop", 0, "PIDFILE", "stop a recorder and wait for its report", GS_CLI_TEXT, AT(stop)},
	GS_CLI_TITLE("Configuration:"),
	GS_CLI_CONFIG(struct job_options, config, "thresholds, rules, advice (YAML)"),
	{"alerts", 0, "FILE", "alert rules and receivers; see gpuscope-alerts(5)", GS_CLI_TEXT,
	 AT(alerts)},
	GS_CLI_PRINT_CONFIG(struct job_options, print_config),
	GS_CLI_CHECK_CONFIG(struct job_options, check_config),
	GS_CLI_LOG_LEVEL,
	GS_CLI_LOG_TOPIC,
	GS_CLI_END};

const struct gs_cli_command gs_cli_job = {
	.name = "gpuscope job",
	.about =
		"Reports what jobs do on this machine: CPU time and waits by cause, I/O, memory, GPUs; class, efficiency and advice.",
	.notes =
		"Exit status: 0 done, 1 failed, 2 wrong usage or configuration, 3 not permitted, 4 no such job here.",
	.brief =
		"job-id user cgroup pid duration filter real-time output format json verbose detach config head",
	.options = option_table,
	.groups = {TO_HEAD_GROUPS(struct job_options, head)},
	.take_word = refuse_word,
	.check = check_options,
};

int gs_cmd_job(int argc, char **argv)
{
	GS_FREE struct job_options *o = calloc(1, sizeof(*o));
	struct sigaction sa = {.sa_handler = on_stop}, old;
	struct job_alert *alert = NULL;
	struct gs_err err = {{0}};
	struct gs_rules *rules;
	int status, r;

	gs_cli_hold_signals();
	if (!o)
		return GS_EXIT_FAILED;
	o->linger_ns = 600000000000ull;
	if (!gs_cli_parse(&gs_cli_job, argc, argv, o, &status))
		return status;
	if (o->print_config)
		return print_config();
	if (o->detectors.lists_settings)
		return gs_cli_list_settings();
	if (o->stop) {
		gs_cli_release_signals();
		return job_detach_stop(o->stop);
	}
	status = load_config(o);
	if (status == 0)
		status = choose_formats(o);
	if (status == 0 && o->check_config && o->alerts) {
		r = job_alert_open(o->alerts, &alert, &err);
		if (r < 0)
			gs_cli_print_message("%s", gs_err_text(&err, r));
		job_alert_close(&alert);
		status = r == 0 ? 0 : r == -EINVAL ? GS_EXIT_USAGE : GS_EXIT_FAILED;
	}
	if (status != 0 || o->check_config)
		return status;
	if (!o->filter_given)
		(void)job_filter_parse(o,
				       gs_job_filters[o->measure.conf.filter]); /* all are right */
	job_filter_configure(o);
	if (o->detach && job_detach_fork(o->detach, &status) != 0)
		return status;
	gs_sandbox_keep_tracing(GS_SANDBOX_GPU_COUNTERS);
	rules = gs_job_conf_rules(&o->measure.conf);
	if (!rules) {
		gs_cli_print_message("out of memory");
		return GS_EXIT_FAILED;
	}
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	/* A terminal that goes away ends the measuring, and no report is lost by it; nohup's wish
	 * is kept. A pipe without a reader is an error of writing. */
	if (sigaction(SIGHUP, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
		sigaction(SIGHUP, &sa, NULL);
	signal(SIGPIPE, SIG_IGN);
	gs_cli_release_signals();
	if (stop) {
		gs_cli_print_message("interrupted before anything was measured: no report");
		gs_rules_free(&rules);
		return STATUS_INTERRUPTED;
	}
	r = gs_findings_node_new(&o->detectors, &o->findings, &err);
	if (r == 0)
		r = o->alerts ? job_alert_open(o->alerts, &alert, &err) : 0;
	if (r < 0) {
		gs_cli_print_message("%s", gs_err_text(&err, r));
		status = r == -EINVAL ? GS_EXIT_USAGE : GS_EXIT_FAILED;
	} else {
		status = measure_jobs(o, rules, alert);
	}
	if (o->detach)
		job_detach_end(status);
	job_alert_close(&alert);
	gs_findings_node_free(&o->findings);
	gs_rules_free(&rules);
	return status;
}
