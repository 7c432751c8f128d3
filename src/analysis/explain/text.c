/* Findings in words. */
#include "analysis/explain/explain.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/gpu_health/gpu_health.h"
#include "core/base/fmt.h"
#include "core/base/mem.h"

static const char *const gpu_values[] = {"memory share", "power share", "temperature"};

static bool is_share(enum gs_explain_subject subject)
{
	return (subject >= GS_EXPLAIN_LAUNCHES && subject <= GS_EXPLAIN_IDLE_GPU) ||
	       subject == GS_EXPLAIN_THROTTLED || subject == GS_EXPLAIN_OVERLAP;
}

static bool is_count(enum gs_explain_subject subject)
{
	return subject >= GS_EXPLAIN_XID && subject <= GS_EXPLAIN_NVLINK;
}

/* "-" for what no time or size can be. */
static const char *put_amount(char out[GS_FMT_BYTES], double value, bool is_time)
{
	if (!(value >= 0 && value < 9e18))
		return "-";
	return is_time ? gs_fmt_ns(out, (uint64_t)value) : gs_fmt_bytes(out, (uint64_t)value);
}

static void put_step_text(const struct gs_explain_finding *f, char *out)
{
	char before[GS_FMT_BYTES], after[GS_FMT_BYTES];
	const char *old = put_amount(before, f->begun.before, true);
	double pct = f->begun.before > 0 ? (f->after / f->begun.before - 1) * 100 : 0;

	if (strcmp(f->begun.detector, gs_detect_stall.name) == 0)
		snprintf(out, GS_EXPLAIN_TEXT_BYTES, "no step ended for %s (usually one every %s)",
			 put_amount(after, f->after, true), old);
	else
		snprintf(out, GS_EXPLAIN_TEXT_BYTES, "steps %s %.1f %% %s (%s -> %s)",
			 strcmp(f->begun.detector, gs_detect_drift.name) == 0 ? "gradually became"
									      : "take",
			 fabs(pct), pct > 0 ? "longer" : "shorter", old,
			 put_amount(after, f->after, true));
}

static void put_gpu_text(const struct gs_explain_finding *f, char *out)
{
	const char *unit = f->begun.value == 2 ? " C" : "";

	snprintf(out, GS_EXPLAIN_TEXT_BYTES, "%s: unusual %s (%.3g%s -> %.3g%s)", f->name,
		 gpu_values[f->begun.value % 3], f->begun.before, unit, f->begun.after, unit);
}

static void put_calls_text(const struct gs_explain_finding *f, char *out)
{
	char before[GS_FMT_BYTES], after[GS_FMT_BYTES];

	snprintf(out, GS_EXPLAIN_TEXT_BYTES, "%s: unusual latencies (%s -> %s)", f->name,
		 put_amount(before, f->begun.before, true),
		 put_amount(after, f->begun.after, true));
}

static void put_memory_text(const struct gs_explain_finding *f, char *out)
{
	char before[GS_FMT_BYTES], after[GS_FMT_BYTES];

	snprintf(out, GS_EXPLAIN_TEXT_BYTES, "%s: %smemory grows steadily (%s -> %s)", f->name,
		 f->subject == GS_EXPLAIN_PROCESS     ? "resident "
		 : f->subject == GS_EXPLAIN_ALLOCATED ? "allocated GPU "
						      : "",
		 put_amount(before, f->begun.before, false),
		 put_amount(after, fmax(f->after, f->begun.after), false));
}

static const char *words_of_share(enum gs_explain_subject subject)
{
	switch (subject) {
	case GS_EXPLAIN_LAUNCHES:
		return "of the time in kernel launches, without waiting for the GPU (launch-bound)";
	case GS_EXPLAIN_TINY_KERNELS:
		return "of the kernels have fewer than 4,096 threads";
	case GS_EXPLAIN_PAGEABLE:
		return "of the bytes copied to and from GPUs use host memory that is not pinned";
	case GS_EXPLAIN_THROTTLED:
		return "of its time at work: clocks held down by heat or by its hardware";
	case GS_EXPLAIN_OVERLAP:
		return "of the time in communication overlaps no computation";
	default:
		return "of the samples: idle while processes hold its memory";
	}
}

static void put_share_text(const struct gs_explain_finding *f, char *out)
{
	snprintf(out, GS_EXPLAIN_TEXT_BYTES, "%s: %.0f %% %s", f->name, f->begun.after * 100,
		 words_of_share(f->subject));
}

static void put_allocator_text(const struct gs_explain_finding *f, char *out)
{
	char unused[GS_FMT_BYTES];

	snprintf(out, GS_EXPLAIN_TEXT_BYTES,
		 "%s: PyTorch's allocator holds %s of GPU memory more than its peak use (%.0f %%)",
		 f->name, put_amount(unused, f->begun.after, false), f->begun.score * 100);
}

/* How many there were is said when there was more than one. */
static void put_errors_text(const struct gs_explain_finding *f, char *out)
{
	double n = fmax(f->after, f->begun.after);
	const char *what = gs_gpu_xid_text(f->xid);
	char times[GS_FMT_BYTES];

	gs_fmt_count(times, (uint64_t)fmin(n, 9e18));
	if (f->subject != GS_EXPLAIN_XID)
		snprintf(out, GS_EXPLAIN_TEXT_BYTES, "%s: %s errors of its %s", f->name, times,
			 f->subject == GS_EXPLAIN_PCIE ? "PCIe link" : "NVLinks");
	else
		snprintf(out, GS_EXPLAIN_TEXT_BYTES, "%s: %s%s%s%s", f->name,
			 what[0] ? what : "an error of the GPU", n > 1 ? " (" : "",
			 n > 1 ? times : "", n > 1 ? " times)" : "");
}

const char *gs_explain_text(const struct gs_explain_finding *finding,
			    char out[GS_EXPLAIN_TEXT_BYTES])
{
	if (finding->subject == GS_EXPLAIN_STEPS)
		put_step_text(finding, out);
	else if (finding->subject == GS_EXPLAIN_GPU_STATE)
		put_gpu_text(finding, out);
	else if (finding->subject == GS_EXPLAIN_CALLS)
		put_calls_text(finding, out);
	else if (finding->subject == GS_EXPLAIN_ALLOCATOR)
		put_allocator_text(finding, out);
	else if (is_share(finding->subject))
		put_share_text(finding, out);
	else if (is_count(finding->subject))
		put_errors_text(finding, out);
	else
		put_memory_text(finding, out);
	return out;
}

const char *gs_explain_command(const struct gs_explain_finding *finding)
{
	if (finding->cause.command)
		return finding->cause.command;
	switch (finding->subject) {
	case GS_EXPLAIN_STEPS:
	case GS_EXPLAIN_CALLS:
	case GS_EXPLAIN_LAUNCHES:
		return "--by thread";
	case GS_EXPLAIN_TINY_KERNELS:
		return "--by kernel";
	case GS_EXPLAIN_PAGEABLE:
	case GS_EXPLAIN_OVERLAP:
		return "--by stream";
	case GS_EXPLAIN_ALLOCATOR:
	case GS_EXPLAIN_ALLOCATED:
		return "--by memory";
	default:
		return "gpuscope top";
	}
}

/* By the key of the cause. */
static const struct {
	const char *key, *advice;
} cause_advice[] = {
	{"runqueue", "Ask for more processors, or pin the process away from what runs beside it."},
	{"cpu_quota", "Raise the CPU quota of its cgroup or job."},
	{"disk", "Read ahead, cache the data on the node, or use faster storage."},
	{"fault", "Check memory use and swap of the node; fault memory in before the run."},
	{"network", "Check the network and the peer it waits for."},
	{"retransmits", "Check links and switches for packet loss."},
	{"lock", "Look for the thread that holds the lock."},
	{"gc", "Collect at fixed steps: gc.disable(), gc.freeze(), gc.collect()."},
	{"gil", "Move Python work of other threads into processes."},
	{"loader", "Add loader workers, or make loading of an item cheaper."},
	{"neighbour", "Move one of the processes to another GPU."},
	{"xid", "Look this number up in NVIDIA's XID guide."},
};

const char *gs_explain_advice(const struct gs_explain_finding *f)
{
	for (size_t i = 0; i < GS_ARRAY_LEN(cause_advice) && f->cause.key; i++)
		if (strcmp(cause_advice[i].key, f->cause.key) == 0)
			return cause_advice[i].advice;
	for (unsigned c = 0; c < GS_GPU_CONDITION_COUNT && f->cause.key; c++)
		if (strcmp(gs_gpu_condition_key(c), f->cause.key) == 0)
			return gs_gpu_condition_advice(c);
	switch (f->subject) {
	case GS_EXPLAIN_XID:
		return gs_gpu_condition_advice(gs_gpu_condition_of_xid(f->xid));
	case GS_EXPLAIN_THROTTLED:
		return gs_gpu_condition_advice(GS_GPU_CONDITION_HW_HEAT);
	case GS_EXPLAIN_PCIE:
		return gs_gpu_condition_advice(GS_GPU_CONDITION_PCIE_WIDTH);
	case GS_EXPLAIN_NVLINK:
		return "Run `nvidia-smi nvlink -e`; have the link's bridge or board checked.";
	case GS_EXPLAIN_IDLE_GPU:
		return gs_gpu_condition_advice(GS_GPU_CONDITION_IDLE_HELD);
	case GS_EXPLAIN_LAUNCHES:
	case GS_EXPLAIN_TINY_KERNELS:
		return "Use CUDA graphs, torch.compile or larger batches.";
	case GS_EXPLAIN_PAGEABLE:
		return "Pin host memory: pin_memory=True, non_blocking=True.";
	case GS_EXPLAIN_ALLOCATOR:
		return "Try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.";
	case GS_EXPLAIN_OVERLAP:
		return "Start communication before the computation ends: smaller gradient buckets, prefetching, a stream of its own.";
	case GS_EXPLAIN_GPU_MEMORY:
	case GS_EXPLAIN_NODE_MEMORY:
	case GS_EXPLAIN_PROCESS:
	case GS_EXPLAIN_ALLOCATED:
		return "Look for what the program keeps from step to step.";
	default:
		return "";
	}
}

const char *gs_explain_subject_name(enum gs_explain_subject subject)
{
	static const char *const words[] = {"",
					    "steps",
					    "gpu_state",
					    "gpu_memory",
					    "node_memory",
					    "process_memory",
					    "calls",
					    "launches",
					    "tiny_kernels",
					    "pageable_copies",
					    "idle_gpu",
					    "allocator",
					    "allocated_memory",
					    "throttled_gpu",
					    "overlap",
					    "xid",
					    "pcie_errors",
					    "nvlink_errors"};

	return (unsigned)subject < GS_ARRAY_LEN(words) ? words[subject] : "";
}

int gs_explain_number(const struct gs_explain_finding *finding)
{
	for (int i = 0; i < GS_DETECT_N_DETECTORS; i++)
		if (strcmp(gs_detectors[i]->name, finding->begun.detector) == 0)
			return (i + 1) << 8 | (finding->subject & 0xff);
	return 0;
}

bool gs_explain_number_text(int number, char *out, size_t bytes)
{
	int detector = (number >> 8) - 1;
	const char *subject = gs_explain_subject_name(number & 0xff);

	if (detector < 0 || detector >= GS_DETECT_N_DETECTORS || !subject[0])
		return false;
	snprintf(out, bytes, "%s of %s", gs_detectors[detector]->name, subject);
	return true;
}

const char *gs_explain_unit(const struct gs_explain_finding *finding)
{
	if (finding->subject == GS_EXPLAIN_STEPS || finding->subject == GS_EXPLAIN_CALLS)
		return "ns";
	if (is_share(finding->subject))
		return "ratio";
	if (is_count(finding->subject))
		return "count";
	if (finding->subject == GS_EXPLAIN_GPU_STATE)
		return finding->begun.value == 2 ? "celsius" : "ratio";
	return "bytes";
}
