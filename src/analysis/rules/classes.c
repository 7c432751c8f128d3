/*
 * What to say of each built-in class of job: a name for people, the figures that show it, what to
 * do, and the command that shows more. Texts hold expressions over figures, as those of advice do.
 * Of several rows of one class the first whose condition holds is taken. The names in the second
 * column are those of the verdicts of traces, where both know the class.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "analysis/rules/rules_int.h"

#define NO_SHARE   GS_FIGURE_COUNT
#define TOO_SHORT  1.0 /* seconds */
#define QUEUED_PCT 25  /* of its busy time in the run queue: the evidence mentions it */
#define ITS_CALLS  GS_VERDICT_ITS_CALLS
#define ITS_LINES  "gpuscope trace -p PID --layer python"
#define ITS_DETAIL "gpuscope job -p PID -v"

struct class_text {
	const char *job_class, *class_name, *title;
	unsigned share; /* the figure that is its share of time; NO_SHARE */
	const char *condition, *evidence, *advice, *command;
};

static const struct class_text class_texts[] = {
	{"Memory-bound", "memory_pressure", "killed for lack of memory", NO_SHARE, "oom_kills > 0",
	 "the kernel killed {oom_kills:round} of its processes for lack of memory (OOM)",
	 "request more memory, or load less at a time", ITS_DETAIL},
	{"Memory-bound", "memory_pressure", "short of memory", NO_SHARE, "true",
	 "its memory is full, and {major_faults_per_second:round} page faults a second wait for a disk",
	 "request more memory, or work on less at a time", ITS_DETAIL},
	{"Lock-bound", "lock_bound", "its threads wait for locks", GS_FIGURE_LOCK, "true",
	 "{lock_percent:1} % of its threads' time waited for locks; {cpus_busy:1} processors were busy",
	 "find the lock that they share; in Python use processes instead of threads", ITS_LINES},
	{"CPU-throttled", "throttled", "throttled by its CPU quota", NO_SHARE, "true",
	 "the quota of {cores:1} processors throttled it in {cpu_throttled_percent:1} % of the periods",
	 "request a larger quota (cpu.max, limits.cpu), or run no more threads than it allows",
	 ITS_DETAIL},
	{"CPU-IO-mixed", "mixed", "computes and waits for disks", GS_FIGURE_COMPUTE, "true",
	 "{compute_percent:1} % of its threads' time is computing, {io_percent:1} % waits for disks",
	 "read ahead, so that computing and reading overlap", ITS_DETAIL},
	{"IO-bound-intensive", "io_bound", "I/O-bound: many small waits", GS_FIGURE_IO, "true",
	 "{io_percent:1} % of its threads' time was blocked on disks and file systems",
	 "use larger reads and writes, or a faster disk", ITS_DETAIL},
	{"IO-bound", "io_bound", "I/O-bound", GS_FIGURE_IO, "true",
	 "{io_percent:1} % of its threads' time was blocked on disks and file systems",
	 "use larger and fewer reads and writes, or a faster disk", ITS_DETAIL},
	{"Network-bound", "network_bound", "waits for the network", GS_FIGURE_NET, "true",
	 "{net_percent:1} % of its threads' time waited on sockets, {net_bytes_per_second:bytes} a second",
	 "look at the peers: one answers late, or the requests are small", ITS_DETAIL},
	{"Input-bound", "input_bound", "starved by its data loader", GS_FIGURE_INPUT, "true",
	 "it waited {input_percent:1} % of its time for data from workers that it started, which computed little themselves",
	 "see what the workers wait for, or start more of them", ITS_CALLS},
	{"CPU-starved", "cpu_starved", "starved of CPUs by others", GS_FIGURE_TAKEN, "true",
	 "other processes took {cpu_taken_percent:1} % of the processor time that it could have used",
	 "see what else runs on its processors; request exclusive processors", "gpuscope top"},
	{"CPU-bound", "cpu_bound", "CPU-bound and serial", GS_FIGURE_COMPUTE,
	 "cores > 1.5 && cpu_demand_percent * cores / 100 < 1.15",
	 "one thread computes {compute_percent:1} % of the time; {cores:round} processors are available",
	 "divide its work among processors, or request only one", ITS_LINES},
	{"CPU-bound", "cpu_bound", "CPU-bound", GS_FIGURE_COMPUTE, "true",
	 "it computes {compute_percent:1} % of the time, on {cpus_busy:1} of {cores:1} processors",
	 "find the code that runs most", ITS_LINES},
	{"Idle-heavy-switching", "idle", "idle: wakes up without work", GS_FIGURE_IDLE, "true",
	 "its processes slept or waited for work {idle_percent:1} % of the time, and woke up {context_switches_per_core_second:round} times a second",
	 "wait for the event instead of polling", ITS_CALLS},
	{"Idle-heavy", "idle", "idle", GS_FIGURE_IDLE, "true",
	 "its processes slept or waited for work {idle_percent:1} % of the time",
	 "see what it waits for; end it if it hangs", ITS_CALLS},
	{"GPU-idle", "idle", "its GPUs are idle", NO_SHARE, "true",
	 "its GPUs were busy {gpu_percent:1} % of the time", "give them work, or release them",
	 ITS_CALLS},
	{"GPU-input-bound", "input_bound", "its GPUs wait for input", NO_SHARE, "true",
	 "its GPUs were busy {gpu_percent:1} % of the time, {cpus_busy:1} processors were busy",
	 "more data-loader workers, or faster storage", ITS_CALLS},
	{"GPU-communication-bound", "communication_bound", "its GPUs wait for each other",
	 GS_FIGURE_NCCL, "true", "{collective_percent:1} % of the time was spent in collectives",
	 "compare ranks: the one with the least time there is the one that the others wait for",
	 ITS_CALLS},
	{"GPU-launch-bound", "launch_bound", "its GPUs wait for launches", NO_SHARE, "true",
	 "kernels fill {sm_percent:1} % of the SMs; {cpus_busy:1} processors launch them",
	 "launch fewer, larger kernels: CUDA graphs, larger batches", ITS_CALLS},
	{"GPU-memory-bound", "gpu_bound", "bound by its GPUs' memory bandwidth", GS_FIGURE_DRAM,
	 "true", "{dram_percent:1} % of the bandwidth of device memory is used",
	 "fuse kernels; lower precision", ITS_CALLS},
	{"GPU-compute-bound", "gpu_bound", "GPU-bound", GS_FIGURE_GPU, "true",
	 "its GPUs were busy {gpu_percent:1} % of the time",
	 "lower precision, larger batches, or more GPUs", ITS_CALLS},
	{"Unknown", "not_known", "not known", NO_SHARE, "true",
	 "its use of processors is not known",
	 "run as root, so that the kernel's counters can be read", ITS_DETAIL},
	{"Balanced", "mixed", "no single cause", NO_SHARE, "true",
	 "computing {compute_percent:1} %, disks {io_percent:1} %, network {net_percent:1} %, locks {lock_percent:1} %, idle {idle_percent:1} %",
	 "start with the largest share", ITS_DETAIL},
	{"Mixed-intensive", "mixed", "no single cause", NO_SHARE, "true",
	 "computing {compute_percent:1} %, disks {io_percent:1} %, network {net_percent:1} %, locks {lock_percent:1} %, idle {idle_percent:1} %",
	 "start with the largest share", ITS_DETAIL},
};

static bool class_holds(const struct class_text *c, const char *job_class,
			const struct gs_figures *f)
{
	struct gs_expr *expr = NULL;
	bool holds;

	if (strcmp(c->job_class, job_class) != 0 || gs_expr_parse(c->condition, &expr, NULL) < 0)
		return false;
	holds = gs_expr_value(expr, f) == 1;
	gs_expr_free(&expr);
	return holds;
}

/* A class of the user's own: the rule is why. */
static void describe_custom(struct gs_verdict *v)
{
	v->class_name = "custom";
	snprintf(v->title, sizeof(v->title), "%s", v->job_class);
	snprintf(v->why, sizeof(v->why), "%s", v->n_evidence ? v->evidence[0] : "");
	snprintf(v->next, sizeof(v->next), "%s", v->n_advice ? v->advice[0].next : "");
	v->command = ITS_DETAIL;
}

/* Shares of time have their part of the wait for a processor (gpuscope-job(1)): where that is long, they are not the times that
 * the process itself would show. */
static void add_queue(const struct class_text *c, const struct gs_figures *f, struct gs_verdict *v)
{
	size_t n = strlen(v->why);

	if ((c->share == GS_FIGURE_IO || c->share == GS_FIGURE_NET || c->share == GS_FIGURE_LOCK ||
	     c->share == GS_FIGURE_COMPUTE) &&
	    f->v[GS_FIGURE_RUNQUEUE] >= QUEUED_PCT)
		snprintf(
			v->why + n, sizeof(v->why) - n,
			"; of its busy time %.0f %% was waiting for a processor, divided among its parts",
			f->v[GS_FIGURE_RUNQUEUE]);
}

void gs_verdict_describe(const struct gs_figures *f, struct gs_verdict *v)
{
	double seconds = f->v[GS_FIGURE_DURATION];
	const struct class_text *c = NULL;

	v->share = NAN;
	if (!v->is_custom)
		for (size_t i = 0; !c && i < GS_ARRAY_LEN(class_texts); i++)
			if (class_holds(&class_texts[i], v->job_class, f))
				c = &class_texts[i];
	if (!c) {
		describe_custom(v);
		return;
	}
	v->class_name = c->class_name;
	v->command = c->command;
	snprintf(v->title, sizeof(v->title), "%s", c->title);
	gs_rules_fill_template(c->evidence, f, v->why, sizeof(v->why), NULL);
	add_queue(c, f, v);
	gs_rules_fill_template(c->advice, f, v->next, sizeof(v->next), NULL);
	if (c->share != NO_SHARE)
		v->share = f->v[c->share] / 100;
	v->is_unknown = strcmp(c->class_name, "mixed") == 0 && isnan(v->share);
	v->is_unknown |= strcmp(c->class_name, "not_known") == 0;
	if (seconds < TOO_SHORT) {
		v->is_unknown = true;
		v->class_name = "too_short";
		snprintf(v->title, sizeof(v->title), "too short");
		snprintf(v->next, sizeof(v->next), "measure for some seconds (-d)");
	}
}

struct gs_verdict_text gs_verdict_text_of(const struct gs_verdict *v)
{
	return (struct gs_verdict_text){v->class_name, v->title, v->why,        v->next,
					v->command,    v->share, v->confidence, v->is_unknown};
}
