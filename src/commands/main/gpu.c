/*
 * gpuscope gpu: GPUs and the processes on them, once or again and again.
 *
 * A single reading tells no rates and no shares, so one shot reads twice, a quarter of a second
 * apart, and shows the second.
 */
#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analysis/gpu_health/gpu_health.h"
#include "core/base/clock.h"
#include "core/base/fmt.h"
#include "commands/common/cli.h"
#include "commands/common/summary.h"
#include "sources/identity/identity.h"
#include "output/node_report/gpu.h"
#include "output/report/summary.h"
#include "sources/gpu/gpu.h"
#include "sources/gpu/select.h"
#include "sources/identity/job.h"

#define DEFAULT_WINDOW_NS 250000000ull
#define HEAD_EVERY        25 /* scrolling lines between two heads, on a terminal */

enum {
	OPT_FORMAT = 256,
	OPT_FIELDS,
	OPT_DEVICES,
	OPT_PROCESSES,
	OPT_DMON,
	OPT_PMON,
	OPT_COMPAT,
	OPT_TOPOLOGY,
	OPT_WINDOW,
	OPT_NVML,
	OPT_COMMANDS,
	OPT_ACCOUNTING,
	OPT_TIMEOUT,
};

struct options {
	struct gs_gpu_options gpu;
	struct gs_report_gpu_style style;
	uint64_t watch_ns, window_ns; /* watch 0: one shot */
	uint64_t count;               /* 0: no end */
	bool format_given, topology, list_fields;
	char select[GS_GPU_LIST_BYTES]; /* the lists of -i; "" all GPUs */
	int fields[GS_GPU_FIELD_COUNT];
};

static volatile sig_atomic_t stop, toggle;

static void on_stop(int signal_number)
{
	(void)signal_number;
	stop = 1;
}

static void on_toggle(int signal_number)
{
	(void)signal_number;
	toggle = 1;
}

/* A time up to a day; a plain number is seconds, fractions too. */
static bool parse_seconds(const char *text, uint64_t *ret_ns)
{
	return gs_parse_ns(text, 1000000000ull, ret_ns) == 0 && *ret_ns <= 86400000000000ull;
}

/* With --fields only what brings these is asked of the driver: a value costs up to milliseconds. */
static uint64_t not_asked_for(const struct options *o)
{
	/* Memory tells whether a GPU answers; processes and links stand beside the fields. */
	uint64_t wanted = 1ull << GS_GPU_PART_MEMORY | 1ull << GS_GPU_PART_PROCESSES |
			  1ull << GS_GPU_PART_SHARES | 1ull << GS_GPU_PART_LINKS |
			  1ull << GS_GPU_PART_LINK_EACH;

	if (!o->style.n_fields)
		return 0;
	for (unsigned i = 0; i < o->style.n_fields; i++)
		wanted |= gs_gpu_parts_needed((enum gs_gpu_field)o->fields[i]);
	return ~wanted;
}

static void parse_fields(struct options *o, char *list, struct argp_state *state)
{
	char *save, *name;

	if (strcmp(list, "help") == 0) {
		o->list_fields = true;
		return;
	}
	o->style.n_fields = 0;
	for (name = strtok_r(list, ",", &save); name; name = strtok_r(NULL, ",", &save)) {
		int field = gs_gpu_field_by_key(name);

		if (field < 0)
			argp_error(state, "no field \"%s\": --fields help lists them", name);
		if (o->style.n_fields < GS_GPU_FIELD_COUNT)
			o->fields[o->style.n_fields++] = field;
	}
	if (!o->style.n_fields)
		argp_error(state, "--fields takes names: --fields help lists them");
}

/* What would have no effect is not taken in silence. */
static void check_together(struct options *o, struct argp_state *state)
{
	const struct gs_report_gpu_style *style = &o->style;
	bool scrolls = style->view == GS_GPU_VIEW_DMON || style->view == GS_GPU_VIEW_PMON;
	unsigned left_out = style->view == GS_GPU_VIEW_PMON   ? GS_GPU_SHOW_DEVICES
			    : style->view == GS_GPU_VIEW_DMON ? GS_GPU_SHOW_PROCESSES
							      : 0;

	if (o->topology && (o->watch_ns || o->count || o->select[0] || style->n_fields ||
			    style->parts || style->view != GS_GPU_VIEW_ALL || o->gpu.accounting ||
			    style->format != GS_SUMMARY_TABLE))
		argp_error(state, "--topology is one table of all GPUs: only --nvml goes with it");
	if (scrolls && style->format != GS_SUMMARY_TABLE)
		argp_error(state, "--dmon and --pmon are tables: for %s leave them out",
			   "--format");
	if (left_out && style->parts & left_out)
		argp_error(state, "--dmon shows GPUs and --pmon processes: leave --devices and "
				  "--processes out");
	if (style->n_fields && style->view != GS_GPU_VIEW_ALL)
		argp_error(state, "--fields goes with gpuscope's own view, not with --dmon, --pmon "
				  "or --compat");
	if (style->n_fields && style->parts == GS_GPU_SHOW_PROCESSES)
		argp_error(state, "--fields are of GPUs: leave --processes out");
	if (style->format == GS_SUMMARY_CSV &&
	    style->parts == (GS_GPU_SHOW_DEVICES | GS_GPU_SHOW_PROCESSES))
		argp_error(state, "CSV has one kind of row: --devices or --processes");
	if (style->view == GS_GPU_VIEW_GSWARM && style->parts & GS_GPU_SHOW_PROCESSES)
		argp_error(state, "gswarm has no values of processes: leave --processes out");
	/* Scrolling lines scroll. */
	if (scrolls && !o->watch_ns && o->count != 1)
		o->watch_ns = 1000000000;
	if (o->count > 1 && !o->watch_ns)
		o->watch_ns = 1000000000;
}

static void set_view(struct options *o, enum gs_report_gpu_view view, struct argp_state *state)
{
	if (o->style.view != GS_GPU_VIEW_ALL && o->style.view != view)
		argp_error(state, "--dmon, --pmon and the names of --compat exclude each other");
	o->style.view = view;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;
	struct gs_err err;
	char *end;
	unsigned long n;

	switch (key) {
	case 'w':
		if (!parse_seconds(arg, &o->watch_ns) || o->watch_ns < 10000000)
			argp_error(state,
				   "--watch takes a time from 10ms to 24h, such as 2 (seconds), "
				   "0.1 or 500ms");
		return 0;
	case 'n':
		errno = 0;
		n = strtoul(arg, &end, 10);
		if (!*arg || *arg == '-' || *end || errno || !n)
			argp_error(state, "--count takes a number from 1 on");
		o->count = n;
		return 0;
	case 'i':
		if (gs_gpu_list_add(o->select, arg, &err) < 0)
			argp_error(state, "-i: %s", err.text);
		return 0;
	case OPT_FORMAT:
		if (gs_report_summary_format_parse(arg, &o->style.format) < 0)
			argp_error(state, "--format takes table, json, csv or yaml");
		return 0;
	case OPT_FIELDS:
		parse_fields(o, arg, state);
		return 0;
	case OPT_DEVICES:
		o->style.parts |= GS_GPU_SHOW_DEVICES;
		return 0;
	case OPT_PROCESSES:
		o->style.parts |= GS_GPU_SHOW_PROCESSES;
		return 0;
	case OPT_DMON:
		set_view(o, GS_GPU_VIEW_DMON, state);
		o->style.dmon = arg ? arg : "puc";
		if (!*o->style.dmon || strspn(o->style.dmon, "pucvmet") != strlen(o->style.dmon))
			argp_error(state, "--dmon takes letters of p u c v m e t");
		return 0;
	case OPT_PMON:
		set_view(o, GS_GPU_VIEW_PMON, state);
		return 0;
	case OPT_COMPAT:
		if (strcmp(arg, "eacgm") == 0)
			set_view(o, GS_GPU_VIEW_EACGM, state);
		else if (strcmp(arg, "gswarm") == 0)
			set_view(o, GS_GPU_VIEW_GSWARM, state);
		else
			argp_error(state, "--compat takes eacgm or gswarm");
		return 0;
	case OPT_TOPOLOGY:
		o->topology = true;
		return 0;
	case OPT_WINDOW:
		if (!parse_seconds(arg, &o->window_ns))
			argp_error(state,
				   "--window takes a time up to 24h, such as 0.5 (seconds) or "
				   "500ms; 0 reads once, without rates");
		return 0;
	case OPT_COMMANDS:
		if (!gs_identity_choose_commands(arg))
			argp_error(state, "--commands takes scrubbed, name or full, not \"%s\"",
				   arg);
		return 0;
	case OPT_NVML:
		o->gpu.nvml_path = arg;
		return 0;
	case OPT_TIMEOUT:
		if (!parse_seconds(arg, &o->gpu.hang_ns) || o->gpu.hang_ns < 100000000)
			argp_error(state, "--timeout takes a time from 100ms to 24h, such as 5 "
					  "(seconds)");
		return 0;
	case OPT_ACCOUNTING:
		o->gpu.accounting = true;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "no argument \"%s\": GPUs are chosen with -i", arg);
		return 0;
	case ARGP_KEY_END:
		check_together(o, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int check_written(int r)
{
	if (r < 0)
		gs_cli_say("cannot write: %s", strerror(-r));
	return r < 0 ? GS_EXIT_FAILED : GS_EXIT_DONE;
}

static int print_topology(struct gs_gpu *gpu, const struct gs_gpu_snapshot *s)
{
	printf("%-6s", "");
	for (unsigned i = 0; i < s->n_gpus; i++)
		if (!s->info[i].is_mig)
			printf("GPU%-4u", s->info[i].index);
	puts("NUMA");
	for (unsigned i = 0; i < s->n_gpus; i++) {
		if (s->info[i].is_mig)
			continue;
		printf("GPU%-3u", s->info[i].index);
		for (unsigned j = 0; j < s->n_gpus; j++) {
			const char *how = gs_gpu_topology(gpu, i, j);

			if (!s->info[j].is_mig)
				printf("%-7s", *how ? how : "-");
		}
		if (s->info[i].numa_node >= 0)
			printf("%d\n", s->info[i].numa_node);
		else
			puts("-");
	}
	return check_written(fflush(stdout) == 0 ? 0 : -errno);
}

/* Until then, or until a signal. */
static void sleep_until(uint64_t mono_ns)
{
	struct timespec ts = {.tv_sec = (time_t)(mono_ns / 1000000000),
			      .tv_nsec = (long)(mono_ns % 1000000000)};

	while (!stop && !toggle &&
	       clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

static int exit_of(const struct gs_gpu_snapshot *s)
{
	switch (s->state) {
	case GS_GPU_STATE_OK:
	case GS_GPU_STATE_RELEASED:
		return GS_EXIT_DONE;
	case GS_GPU_STATE_HUNG:
		return GS_EXIT_FAILED;
	default:
		return GS_EXIT_NOT_PERMITTED;
	}
}

/* Events where the format has no place for them. */
static void report_events(const struct options *o, const struct gs_gpu_snapshot *s)
{
	char line[GS_GPU_EVENT_LINE_BYTES];

	if (o->style.view == GS_GPU_VIEW_ALL && o->style.format != GS_SUMMARY_CSV)
		return;
	for (unsigned i = 0; i < s->n_events; i++)
		gs_cli_say("%s", gs_report_gpu_event_line(line, &s->event[i]));
}

static int show_snapshot(struct options *o, const struct gs_gpu_snapshot *s, uint64_t n,
			 const struct gs_gpu_snapshot *before)
{
	bool scrolls = o->style.view == GS_GPU_VIEW_DMON || o->style.view == GS_GPU_VIEW_PMON;

	o->style.head = n == 0 || (scrolls && isatty(STDOUT_FILENO) && n % HEAD_EVERY == 0);
	o->style.before = before;
	o->style.stream = o->watch_ns != 0;
	/* Tables that follow each other are apart. */
	if (n && !scrolls && o->style.format == GS_SUMMARY_TABLE)
		putchar('\n');
	return check_written(gs_report_gpu_write(stdout, s, &o->style));
}

/* What is wrong, once for each time that it changes. */
static void report_state(const struct gs_gpu_snapshot *s, unsigned *told)
{
	if (s->state != *told && s->state != GS_GPU_STATE_OK)
		gs_cli_say("%s", s->state_text);
	*told = s->state;
}

/* The batch system's jobs of the processes. */
static void name_jobs(struct gs_jobs *jobs, struct gs_gpu_snapshot *s)
{
	for (uint32_t i = 0; i < s->n_processes; i++) {
		struct gs_gpu_process *p = &s->process[i];
		struct gs_job_task task;
		const struct gs_job *job =
			p->ended || p->gone ? NULL : gs_jobs_lookup(jobs, p->pid, &task);

		if (job && job->kind == GS_JOB_SLURM)
			snprintf(p->job, sizeof(p->job), "%s", job->id);
	}
}

static int run_gpu(struct options *o, struct gs_gpu *gpu, struct gs_jobs *jobs)
{
	struct gs_gpu_snapshot *s = NULL, *before = NULL;
	bool released = false;
	uint64_t next_ns, now_ns, shown = 0, missed = 0;
	unsigned told = GS_GPU_STATE_OK;
	struct gs_err err = {{0}};
	int r = gs_gpu_read(gpu, &s), status;

	if (r < 0) {
		gs_cli_say("cannot read the GPUs: %s", strerror(-r));
		return GS_EXIT_FAILED;
	}
	status = exit_of(s);
	if (status != GS_EXIT_DONE && !s->n_gpus) {
		gs_cli_say("%s", s->state_text);
		gs_gpu_snapshot_free(&s);
		return status;
	}
	if (o->topology) {
		status = print_topology(gpu, s);
		gs_gpu_snapshot_free(&s);
		return status;
	}
	if (gs_gpu_accounting_off(gpu))
		gs_cli_say("--accounting: a GPU keeps no record of processes that ended; "
			   "`nvidia-smi -am 1` (as root) switches it on");
	gs_gpu_health_follow(NULL, s);
	status = GS_EXIT_DONE;
	next_ns = gs_clock_mono_ns() +
		  (o->watch_ns && o->watch_ns < o->window_ns ? o->watch_ns : o->window_ns);
	if (o->select[0] && gs_gpu_select(s, o->select, &err) < 0) {
		gs_cli_say("%s", err.text);
		status = GS_EXIT_USAGE;
	}
	while (!stop && status == GS_EXIT_DONE) {
		if (o->window_ns || shown) {
			gs_gpu_snapshot_free(&before);
			before = gs_take(s);
			sleep_until(next_ns);
			if (toggle) {
				toggle = 0;
				released = !released;
				if (released)
					gs_gpu_release(gpu);
				else
					gs_gpu_resume(gpu);
			}
			if (stop)
				break;
			r = gs_gpu_read(gpu, &s);
			if (r < 0) {
				gs_cli_say("cannot read the GPUs: %s", strerror(-r));
				status = GS_EXIT_FAILED;
				break;
			}
			s->missed_samples += missed;
			/* A GPU that went away in between is no mistake of the user. */
			if (o->select[0])
				gs_gpu_select(s, o->select, NULL);
		}
		gs_gpu_health_follow(before, s);
		if (o->watch_ns)
			report_state(s, &told);
		report_events(o, s);
		name_jobs(jobs, s);
		status = show_snapshot(o, s, shown++, before);
		if (!o->watch_ns || (o->count && shown >= o->count))
			break;
		/* On time: what is late already is left out, and counted. */
		next_ns += o->watch_ns;
		for (now_ns = gs_clock_mono_ns(); next_ns <= now_ns; missed++)
			next_ns += o->watch_ns;
	}
	if (status == GS_EXIT_DONE && !o->watch_ns && s) {
		status = exit_of(s);
		if (status != GS_EXIT_DONE && o->style.format != GS_SUMMARY_TABLE)
			gs_cli_say("%s", s->state_text);
	}
	gs_gpu_snapshot_free(&s);
	gs_gpu_snapshot_free(&before);
	return status;
}

static const struct argp_option option_table[] = {
	{NULL, 0, NULL, 0, "When:", 1},
	{"watch", 'w', "SECONDS", 0, "again and again; 0.1 or 100ms", 1},
	{"count", 'n', "N", 0, "print N samples, one per second unless -w is given", 1},
	{"window", OPT_WINDOW, "SECONDS", 0,
	 "time between the two readings of one shot (default 0.25; 0: one reading, no rates)", 1},
	{NULL, 0, NULL, 0, "What:", 2},
	{"id", 'i', "GPU[,GPU]", 0,
	 "by index, UUID (or its beginning), PCI bus id, or INDEX:PART of a divided GPU", 2},
	{"devices", OPT_DEVICES, NULL, 0, "only the GPUs", 2},
	{"processes", OPT_PROCESSES, NULL, 0, "only the processes", 2},
	{"fields", OPT_FIELDS, "NAME[,NAME]", 0, "values to show; \"help\" lists them", 2},
	{"topology", OPT_TOPOLOGY, NULL, 0, "how the GPUs are connected, as a matrix", 2},
	{"accounting", OPT_ACCOUNTING, NULL, 0,
	 "also processes that ended between two samples (where accounting mode is on)", 2},
	{NULL, 0, NULL, 0, "How:", 3},
	{"format", OPT_FORMAT, "FORMAT", 0, "table, json, csv, yaml", 3},
	{"dmon", OPT_DMON, "GROUPS", OPTION_ARG_OPTIONAL,
	 "a line for each GPU with the columns of nvidia-smi dmon: p power and heat, u "
	 "utilization, c clocks, v violations, m memory, e errors, t PCIe (default puc); each "
	 "second until interrupted, or as -w and -n say",
	 3},
	{"pmon", OPT_PMON, NULL, 0,
	 "a line for each process with those of nvidia-smi pmon; repeats as --dmon does", 3},
	{"compat", OPT_COMPAT, "NAMES", 0, "names and units of eacgm or gswarm", 3},
	{NULL, 0, NULL, 0, "Where:", 4},
	{"commands", OPT_COMMANDS, "WHAT", 0, "arguments of processes: scrubbed, name (none), full",
	 3},
	{"timeout", OPT_TIMEOUT, "SECONDS", 0,
	 "how long one call of the driver may take (default 5), and four times that all of a "
	 "reading: then the driver hangs, status 1",
	 4},
	{"nvml", OPT_NVML, "PATH", 0, "NVIDIA's monitoring library, when it is not found", 4},
	{0},
};

static void say_waiting(void *ctx, const char *text)
{
	(void)ctx;
	gs_cli_say("waiting for NVIDIA's driver: %s", text);
}

int gs_cmd_gpu(int argc, char **argv)
{
	static const struct argp argp = {
		.options = option_table,
		.parser = parse_option,
		.help_filter = gs_cli_help_filter,
		.doc = "Values of every GPU and of the processes on it.\v"
		       "SIGUSR1 lets go of NVIDIA's driver, so that a GPU can be reset or divided; "
		       "a second one takes it up again.\n"
		       "Exit status: 0 done, 1 failed (a call of the driver hangs), 2 wrong usage "
		       "or no such GPU, 3 no GPU or no driver here.",
	};
	struct options o = {.window_ns = DEFAULT_WINDOW_NS,
			    .gpu = {.size = sizeof(o.gpu),
				    .nvml_option = "--nvml PATH",
				    .on_slow = say_waiting},
			    .style = {.size = sizeof(o.style)}};
	struct gs_report_summary_style terminal = {.size = sizeof(terminal)};
	/* Its id is all that is shown, and this machine knows it by itself. */
	struct gs_jobs_options jo = {.size = sizeof(jo), .no_node = true, .no_controller = true};
	struct gs_jobs *jobs = NULL;
	struct gs_gpu *gpu = NULL;
	struct sigaction sa = {.sa_handler = on_stop};
	struct gs_err err = {{0}};
	int r;

	argp_err_exit_status = GS_EXIT_USAGE;
	if (argp_parse(&argp, argc, argv, 0, NULL, &o) != 0)
		return GS_EXIT_USAGE;
	if (o.list_fields)
		return check_written(gs_report_gpu_write_fields(stdout));
	o.style.fields = o.fields;
	o.gpu.leave_out = not_asked_for(&o);
	gs_cli_summary_style(stdout, true, &terminal);
	o.style.width = terminal.width;
	o.style.color = terminal.color;
	/* Events are news: one shot has none, and need not wait for their thread. */
	o.gpu.groups = GS_GPU_READ_ALL & ~(o.watch_ns ? 0u : (unsigned)GS_GPU_READ_EVENTS);
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sa.sa_handler = on_toggle;
	if (o.watch_ns)
		sigaction(SIGUSR1, &sa, NULL);
	r = gs_gpu_open(&o.gpu, &gpu, &err);
	if (r < 0) {
		gs_cli_say("%s", gs_err_text(&err, r));
		return GS_EXIT_FAILED;
	}
	r = gs_jobs_new(&jo, &jobs, &err);
	if (r < 0) {
		gs_cli_say("%s", gs_err_text(&err, r));
		r = GS_EXIT_FAILED;
	} else {
		r = run_gpu(&o, gpu, jobs);
	}
	gs_jobs_free(&jobs);
	gs_gpu_close(&gpu);
	return r;
}
