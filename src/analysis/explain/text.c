/* Findings in words. */
#include "analysis/explain/explain.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/fmt.h"
#include "core/base/mem.h"

static const char *const gpu_values[] = {"memory share", "power share", "temperature"};

static bool is_share(enum gs_explain_subject subject)
{
	return subject >= GS_EXPLAIN_LAUNCHES && subject <= GS_EXPLAIN_IDLE_GPU;
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
		return "--by stream";
	case GS_EXPLAIN_ALLOCATOR:
	case GS_EXPLAIN_ALLOCATED:
		return "--by memory";
	default:
		return "gpuscope top";
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
					    "allocated_memory"};

	return (unsigned)subject < GS_ARRAY_LEN(words) ? words[subject] : "";
}

const char *gs_explain_unit(const struct gs_explain_finding *finding)
{
	if (finding->subject == GS_EXPLAIN_STEPS || finding->subject == GS_EXPLAIN_CALLS)
		return "ns";
	if (is_share(finding->subject))
		return "ratio";
	if (finding->subject == GS_EXPLAIN_GPU_STATE)
		return finding->begun.value == 2 ? "celsius" : "ratio";
	return "bytes";
}
