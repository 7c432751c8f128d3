/*
 * gpuscope gpu: GPUs and the processes on them, once or continuously.
 *
 * A single reading has no rates and no shares, so one shot reads twice, a quarter of a second
 * apart, and shows the second.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analysis/gpu_health/gpu_health.h"
#include "core/base/clock.h"
#include "core/base/fmt.h"
#include "core/near/near.h"
#include "commands/common/cli.h"
#include "commands/common/shared.h"
#include "commands/common/summary.h"
#include "sources/identity/identity.h"
#include "output/node_report/gpu.h"
#include "output/report/summary.h"
#include "sources/gpu/gpu.h"
#include "sources/gpu/select.h"
#include "sources/identity/job.h"

#define DEFAULT_WINDOW_NS 250000000ull
#define HEAD_EVERY        25 /* scrolling lines between two heads, on a terminal */

struct gpu_options {
	struct gs_gpu_options gpu;
	struct gs_report_gpu_style style;
	uint64_t interval_ns, window_ns; /* watch 0: one shot */
	unsigned count;                  /* 0: no end */
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

/* With --fields only what brings these is asked of the driver: a value costs up to milliseconds. */
static uint64_t not_asked_for(const struct gpu_options *o)
{
	/* Memory shows whether a GPU answers; processes and links stand beside the fields. */
	uint64_t wanted = 1ull << GS_GPU_PART_MEMORY | 1ull << GS_GPU_PART_PROCESSES |
			  1ull << GS_GPU_PART_SHARES | 1ull << GS_GPU_PART_LINKS |
			  1ull << GS_GPU_PART_LINK_EACH;

	if (!o->style.n_fields)
		return 0;
	for (unsigned i = 0; i < o->style.n_fields; i++)
		wanted |= gs_gpu_parts_needed((enum gs_gpu_field)o->fields[i]);
	return ~wanted;
}

static int refuse_field(const char *name, struct gs_err *err)
{
	struct gs_near near;

	gs_near_init(&near, name);
	for (unsigned i = 0; i < GS_GPU_FIELD_COUNT; i++)
		gs_near_add(&near, gs_gpu_field_info(i)->key);
	if (near.name)
		return gs_err_set(err, -EINVAL,
				  "no field \"%s\"; did you mean \"%s\"? --fields help lists them",
				  name, near.name);
	return gs_err_set(err, -EINVAL, "no field \"%s\": --fields help lists them", name);
}

static int add_field(void *target, const struct gs_cli_option *option, char *argument,
		     struct gs_err *err)
{
	struct gpu_options *o = target;
	int field = gs_gpu_field_by_key(argument);

	if (strcmp(argument, "help") == 0) {
		o->list_fields = true;
		return 0;
	}
	if (field < 0)
		return refuse_field(argument, err);
	if (o->style.n_fields < GS_GPU_FIELD_COUNT)
		o->fields[o->style.n_fields++] = field;
	return 0;
}

static int add_gpus(void *target, const struct gs_cli_option *option, char *argument,
		    struct gs_err *err)
{
	return gs_gpu_list_add(((struct gpu_options *)target)->select, argument, err);
}

static int set_view(struct gpu_options *o, enum gs_report_gpu_view view, struct gs_err *err)
{
	if (o->style.view != GS_GPU_VIEW_ALL && o->style.view != view)
		return gs_err_set(err, -EINVAL,
				  "--dmon, --pmon and the names of --compat exclude each other");
	o->style.view = view;
	return 0;
}

static int set_dmon(void *target, const struct gs_cli_option *option, char *argument,
		    struct gs_err *err)
{
	struct gpu_options *o = target;

	o->style.dmon = argument ? argument : "puc";
	if (!*o->style.dmon || strspn(o->style.dmon, "pucvmet") != strlen(o->style.dmon))
		return -EINVAL;
	return set_view(o, GS_GPU_VIEW_DMON, err);
}

static int set_pmon(void *target, const struct gs_cli_option *option, char *argument,
		    struct gs_err *err)
{
	return set_view(target, GS_GPU_VIEW_PMON, err);
}

static int set_compat(void *target, const struct gs_cli_option *option, char *argument,
		      struct gs_err *err)
{
	if (strcmp(argument, "eacgm") == 0)
		return set_view(target, GS_GPU_VIEW_EACGM, err);
	return strcmp(argument, "gswarm") == 0 ? set_view(target, GS_GPU_VIEW_GSWARM, err)
					       : -EINVAL;
}

/* What would have no effect is not taken in silence: the text for the user, or NULL. */
static const char *find_conflict(const struct gpu_options *o)
{
	const struct gs_report_gpu_style *style = &o->style;
	bool scrolls = style->view == GS_GPU_VIEW_DMON || style->view == GS_GPU_VIEW_PMON;
	unsigned left_out = style->view == GS_GPU_VIEW_PMON   ? GS_GPU_SHOW_DEVICES
			    : style->view == GS_GPU_VIEW_DMON ? GS_GPU_SHOW_PROCESSES
							      : 0;

	if (o->topology && (o->interval_ns || o->count || o->select[0] || style->n_fields ||
			    style->parts || style->view != GS_GPU_VIEW_ALL || o->gpu.accounting ||
			    style->format != GS_SUMMARY_TABLE))
		return "--topology is one table of all GPUs, and takes no option but --nvml";
	if (scrolls && style->format != GS_SUMMARY_TABLE)
		return "--dmon and --pmon print tables: leave out --format, or use neither";
	if (left_out && style->parts & left_out)
		return "--dmon shows GPUs and --pmon processes: leave out --devices and --processes";
	if (style->n_fields && style->view != GS_GPU_VIEW_ALL)
		return "--fields works with gpuscope's own view, not with --dmon, --pmon or --compat";
	if (style->n_fields && style->parts == GS_GPU_SHOW_PROCESSES)
		return "--fields selects values of GPUs: leave out --processes";
	if (style->format == GS_SUMMARY_CSV &&
	    style->parts == (GS_GPU_SHOW_DEVICES | GS_GPU_SHOW_PROCESSES))
		return "CSV has one kind of row: --devices or --processes";
	if (style->view == GS_GPU_VIEW_GSWARM && style->parts & GS_GPU_SHOW_PROCESSES)
		return "--compat gswarm has no values of processes: leave out --processes";
	return NULL;
}

static int check_options(void *target, struct gs_err *err)
{
	struct gpu_options *o = target;
	bool scrolls = o->style.view == GS_GPU_VIEW_DMON || o->style.view == GS_GPU_VIEW_PMON;
	const char *conflict = find_conflict(o);

	if (conflict)
		return gs_err_set(err, -EINVAL, "%s", conflict);
	/* Scrolling lines scroll. */
	if (!o->interval_ns && ((scrolls && o->count != 1) || o->count > 1))
		o->interval_ns = 1000000000;
	return 0;
}

static int refuse_word(void *target, char **words, struct gs_err *err)
{
	return gs_err_set(err, -EINVAL, "no argument \"%s\": GPUs are chosen with -g", words[0]);
}

static int check_written(int r)
{
	if (r < 0)
		gs_cli_print_message("cannot write: %s", strerror(-r));
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
static void report_events(const struct gpu_options *o, const struct gs_gpu_snapshot *s)
{
	char line[GS_GPU_EVENT_LINE_BYTES];

	if (o->style.view == GS_GPU_VIEW_ALL && o->style.format != GS_SUMMARY_CSV)
		return;
	for (unsigned i = 0; i < s->n_events; i++)
		gs_cli_print_message("%s", gs_report_gpu_event_line(line, &s->event[i]));
}

static int show_snapshot(struct gpu_options *o, const struct gs_gpu_snapshot *s, uint64_t n,
			 const struct gs_gpu_snapshot *before)
{
	bool scrolls = o->style.view == GS_GPU_VIEW_DMON || o->style.view == GS_GPU_VIEW_PMON;

	o->style.head = n == 0 || (scrolls && isatty(STDOUT_FILENO) && n % HEAD_EVERY == 0);
	o->style.before = before;
	o->style.stream = o->interval_ns != 0;
	/* Tables that follow each other are apart. */
	if (n && !scrolls && o->style.format == GS_SUMMARY_TABLE)
		putchar('\n');
	return check_written(gs_report_gpu_write(stdout, s, &o->style));
}

/* What is wrong, once for each time that it changes. */
static void report_state(const struct gs_gpu_snapshot *s, unsigned *reported)
{
	if (s->state != *reported && s->state != GS_GPU_STATE_OK)
		gs_cli_print_message("%s", s->state_text);
	*reported = s->state;
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

static int run_gpu(struct gpu_options *o, struct gs_gpu *gpu, struct gs_jobs *jobs)
{
	struct gs_gpu_snapshot *s = NULL, *before = NULL;
	bool released = false;
	uint64_t next_ns, now_ns, shown = 0, missed = 0;
	unsigned reported = GS_GPU_STATE_OK;
	struct gs_err err = {{0}};
	int r = gs_gpu_read(gpu, &s), status;

	if (r < 0) {
		gs_cli_print_message("cannot read the GPUs: %s", strerror(-r));
		return GS_EXIT_FAILED;
	}
	status = exit_of(s);
	if (status != GS_EXIT_DONE && !s->n_gpus) {
		gs_cli_print_message("%s", s->state_text);
		gs_gpu_snapshot_free(&s);
		return status;
	}
	if (o->topology) {
		status = print_topology(gpu, s);
		gs_gpu_snapshot_free(&s);
		return status;
	}
	if (gs_gpu_accounting_off(gpu))
		gs_cli_print_message(
			"--accounting: accounting mode is off on a GPU; `nvidia-smi -am 1` (as root) enables it");
	gs_gpu_health_follow(NULL, s);
	status = GS_EXIT_DONE;
	next_ns = gs_clock_mono_ns() +
		  (o->interval_ns && o->interval_ns < o->window_ns ? o->interval_ns : o->window_ns);
	r = o->select[0] ? gs_gpu_select(s, o->select, &err) : 0;
	if (r < 0) {
		gs_cli_print_message("%s", err.text);
		status = r == -ENODEV ? GS_EXIT_NOTHING : GS_EXIT_USAGE;
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
				gs_cli_print_message("cannot read the GPUs: %s", strerror(-r));
				status = GS_EXIT_FAILED;
				break;
			}
			s->missed_samples += missed;
			/* A GPU that went away in between is no mistake of the user. */
			if (o->select[0])
				gs_gpu_select(s, o->select, NULL);
		}
		gs_gpu_health_follow(before, s);
		if (o->interval_ns)
			report_state(s, &reported);
		report_events(o, s);
		name_jobs(jobs, s);
		status = show_snapshot(o, s, shown++, before);
		if (!o->interval_ns || (o->count && shown >= o->count))
			break;
		/* On time: what is late already is left out, and counted. */
		next_ns += o->interval_ns;
		for (now_ns = gs_clock_mono_ns(); next_ns <= now_ns; missed++)
			next_ns += o->interval_ns;
	}
	if (status == GS_EXIT_DONE && !o->interval_ns && s) {
		status = exit_of(s);
		if (status != GS_EXIT_DONE && o->style.format != GS_SUMMARY_TABLE)
			gs_cli_print_message("%s", s->state_text);
	}
	gs_gpu_snapshot_free(&s);
	gs_gpu_snapshot_free(&before);
	return status;
}

#define DAY_NS     86400000000000ull
#define AT(member) GS_CLI_AT(struct gpu_options, member)

static const struct gs_cli_option option_table[] = {
	GS_CLI_TITLE("Sampling:"),
	{"interval", 'i', "TIME", "repeat at this interval (0.1 or 100ms)", GS_CLI_TIME,
	 AT(interval_ns), .min = 10000000, .max = DAY_NS},
	{"count", 'n', "N", "print N samples, one a second unless -i is given", GS_CLI_COUNT,
	 AT(count), .min = 1},
	{"window", 0, "TIME", "time between the two readings (250ms; 0: read once)", GS_CLI_TIME,
	 AT(window_ns), .max = DAY_NS},
	GS_CLI_TITLE("Selection:"),
	GS_CLI_SELECT_GPUS,
	{"devices", 0, NULL, "show only GPUs", GS_CLI_BITS, AT(style.parts),
	 .data = GS_GPU_SHOW_DEVICES},
	{"processes", 0, NULL, "show only processes", GS_CLI_BITS, AT(style.parts),
	 .data = GS_GPU_SHOW_PROCESSES},
	{"fields", 0, "NAME[,NAME]", "values to show; 'help' lists them", GS_CLI_LIST,
	 .takes = "names: --fields help lists them", .set = add_field},
	{"topology", 0, NULL, "show a matrix of GPU connections", GS_CLI_FLAG, AT(topology)},
	{"accounting", 0, NULL, "also show processes that ended between two samples", GS_CLI_FLAG,
	 AT(gpu.accounting)},
	GS_CLI_TITLE("Output:"),
	GS_CLI_FORMAT(struct gpu_options, style.format, "table, json, csv, yaml"),
	GS_CLI_JSON,
	{"dmon", 0, "[GROUPS]", "output of nvidia-smi dmon, groups p u c v m e t (puc)", GS_CLI_SET,
	 .takes = "letters of p u c v m e t", .set = set_dmon},
	{"pmon", 0, NULL, "output of nvidia-smi pmon", GS_CLI_SET, .set = set_pmon},
	{"compat", 0, "NAMES", "names and units of eacgm or gswarm", GS_CLI_SET,
	 .words = "eacgm gswarm", .set = set_compat},
	GS_CLI_COMMANDS,
	GS_CLI_NO_ARGS,
	GS_CLI_TITLE("Driver:"),
	{"timeout", 0, "TIME", "limit for one driver call (5s); longer: driver hangs", GS_CLI_TIME,
	 AT(gpu.hang_ns), .min = 100000000, .max = DAY_NS},
	GS_CLI_NVML(struct gpu_options, gpu.nvml_path),
	GS_CLI_END};

const struct gs_cli_command gs_cli_gpu = {
	.name = "gpuscope gpu",
	.about = "Shows metrics of GPUs and of the processes on them, once or continuously.",
	.notes =
		"--dmon and --pmon repeat until interrupted, also into a pipe, as nvidia-smi does; -n 1 prints once.\n"
		"SIGUSR1 releases the NVIDIA driver so that a GPU can be reset or partitioned; send it again to reattach.\n"
		"Exit status: 0 done, 1 failed (a driver call hangs), 2 wrong usage, 3 no GPU or no driver here, 4 no such GPU.",
	.brief =
		"interval count gpu devices processes fields topology format json dmon pmon no-args",
	.options = option_table,
	.groups = {GS_CLI_LOG_GROUP},
	.take_word = refuse_word,
	.check = check_options,
};

static void report_waiting(void *ctx, const char *text)
{
	(void)ctx;
	gs_cli_print_message("waiting for NVIDIA's driver: %s", text);
}

int gs_cmd_gpu(int argc, char **argv)
{
	struct gpu_options o = {.window_ns = DEFAULT_WINDOW_NS,
				.gpu = {.size = sizeof(o.gpu),
					.nvml_option = "--nvml PATH",
					.on_slow = report_waiting},
				.style = {.size = sizeof(o.style)}};
	struct gs_report_summary_style terminal = {.size = sizeof(terminal)};
	/* Its id is all that is shown, and this machine knows it by itself. */
	struct gs_jobs_options jo = {.size = sizeof(jo), .no_node = true, .no_controller = true};
	struct gs_jobs *jobs = NULL;
	struct gs_gpu *gpu = NULL;
	struct sigaction sa = {.sa_handler = on_stop};
	struct gs_err err = {{0}};
	int r;

	if (!gs_cli_parse(&gs_cli_gpu, argc, argv, &o, &r))
		return r;
	if (o.list_fields)
		return check_written(gs_report_gpu_write_fields(stdout));
	o.style.fields = o.fields;
	o.gpu.leave_out = not_asked_for(&o);
	gs_cli_summary_style(stdout, true, &terminal);
	o.style.width = terminal.width;
	o.style.color = terminal.color;
	/* Events are news: one shot has none, and need not wait for their thread. */
	o.gpu.groups = GS_GPU_READ_ALL & ~(o.interval_ns ? 0u : (unsigned)GS_GPU_READ_EVENTS);
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sa.sa_handler = on_toggle;
	if (o.interval_ns)
		sigaction(SIGUSR1, &sa, NULL);
	r = gs_gpu_open(&o.gpu, &gpu, &err);
	if (r < 0) {
		gs_cli_print_message("%s", gs_err_text(&err, r));
		return GS_EXIT_FAILED;
	}
	r = gs_jobs_new(&jo, &jobs, &err);
	if (r < 0) {
		gs_cli_print_message("%s", gs_err_text(&err, r));
		r = GS_EXIT_FAILED;
	} else {
		r = run_gpu(&o, gpu, jobs);
	}
	gs_jobs_free(&jobs);
	gs_gpu_close(&gpu);
	return r;
}
