/*
 * Rules about the GPU's work: how often it is waited for, whether the host is ahead, what copies and launches cost.
 */
#include <inttypes.h>
#include <string.h>

#include "core/base/buf.h"
#include "core/base/fmt.h"
#include "analysis/rules/trace_int.h"

#define AHEAD_WORK    50
#define COPY_RATE     1e9  /* at so many bytes a second: those of a copy that waits are fewer */
#define CALLBACK_RATE 5    /* functions a second that the GPU's work ends by on the host */
#define SYNC_RATE     200  /* so many a second, */
#define SYNC_WORK     5    /* with so few launches between two of them */
#define LAUNCH_RATE   4000 /* so many launches a second, */
#define LAUNCH_WAIT   0.15 /* and less than this waiting for the GPU */
#define LAUNCH_LEAST  0.50 /* so busy, where other threads of its process hold it up meanwhile */

bool rules_holds_sync_heavy(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	char waits[GS_FMT_BYTES], launches[GS_FMT_BYTES];
	double rate = f->seconds > 0 ? (double)f->waits / f->seconds : 0;

	*ret_share = f->share[GS_PART_GPU_WAIT];
	if (*ret_share < RULES_SYNC_HEAVY || rate < SYNC_RATE || f->launches > SYNC_WORK * f->waits)
		return false;
	rules_add_text(text, "%s calls that wait for the GPU (%.0f a second) for %s launches",
		       gs_fmt_count(waits, f->waits), rate, gs_fmt_count(launches, f->launches));
	return true;
}

bool rules_holds_gpu(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	*ret_share = f->share[GS_PART_GPU_WAIT];
	if (*ret_share < RULES_GPU_BOUND)
		return false;
	rules_add_text(
		text,
		"the host waits in synchronising calls and blocking copies until the GPU is done");
	rules_describe_collectives(f, text);
	return true;
}

/* It launches a step's work, and is done before the GPU is: that it works for much of the time
 * does not make the GPU wait. */
bool rules_holds_host_ahead(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	char waits[GS_FMT_BYTES];

	*ret_share = f->share[GS_PART_GPU_WAIT];
	if (*ret_share < RULES_HOST_AHEAD || !f->waits || f->launches < AHEAD_WORK * f->waits)
		return false;
	rules_add_text(text,
		       "the host is ahead of the GPU: after some %" PRIu64
		       " launches each it waits for it, %s times in all",
		       f->launches / f->waits, gs_fmt_count(waits, f->waits));
	rules_describe_collectives(f, text);
	return true;
}

/* JAX waits for a thread of the driver's, which runs a function when the GPU is done. */
bool rules_holds_gpu_callbacks(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	char callbacks[GS_FMT_BYTES];

	*ret_share = f->share[GS_PART_LOCK] + f->share[GS_PART_GPU_WAIT];
	if (*ret_share < RULES_GPU_BOUND || f->others_active >= RULES_OTHERS_ACTIVE ||
	    (double)f->callbacks < CALLBACK_RATE * f->seconds)
		return false;
	rules_add_text(
		text,
		"the host waits while no thread of its process runs, until the GPU's work ends by functions on the host (%s of them)",
		gs_fmt_count(callbacks, f->callbacks));
	rules_describe_collectives(f, text);
	return true;
}

bool rules_holds_copies(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	char copies[GS_FMT_BYTES], bytes[GS_FMT_BYTES], rate[GS_FMT_BYTES];
	double bytes_per_s = f->copy_ns ? (double)f->copy_bytes * 1e9 / (double)f->copy_ns : 0;

	*ret_share = rules_share_of(f->copy_ns, rules_whole_ns(f->pace));
	if (*ret_share < RULES_COPY_BOUND || bytes_per_s < COPY_RATE)
		return false;
	rules_add_text(text, "%s calls that copy moved %s while it waited, at %s/s",
		       gs_fmt_count(copies, f->copies), gs_fmt_bytes(bytes, f->copy_bytes),
		       gs_fmt_bytes(rate, (uint64_t)bytes_per_s));
	return true;
}

bool rules_holds_launch(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	double rate = f->seconds > 0 ? (double)f->launches / f->seconds : 0;

	*ret_share = f->share[GS_PART_CUDA] + f->share[GS_PART_OPERATOR] + f->share[GS_PART_CPU];
	if (rate < LAUNCH_RATE || *ret_share < RULES_LAUNCH_BUSY ||
	    f->share[GS_PART_GPU_WAIT] >= LAUNCH_WAIT)
		return false;
	rules_add_text(
		text,
		"the host prepares and makes %.0f launches a second, and waits for the GPU only %.0f %% of the time",
		rate, 100 * f->share[GS_PART_GPU_WAIT]);
	return true;
}

/* It waits for locks that threads of its process hold, which run: as those of a data loader do that need
 * the interpreter, too. The GPU waits for the launches that come late by that. */
bool rules_holds_launch_held_up(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	double rate = f->seconds > 0 ? (double)f->launches / f->seconds : 0;
	double busy = f->share[GS_PART_CUDA] + f->share[GS_PART_OPERATOR] + f->share[GS_PART_CPU];
	double held_up =
		f->share[GS_PART_LOCK] < f->others_ran ? f->share[GS_PART_LOCK] : f->others_ran;

	*ret_share = busy + held_up;
	if (rate < LAUNCH_RATE || busy < LAUNCH_LEAST || *ret_share < RULES_LAUNCH_BUSY ||
	    f->share[GS_PART_GPU_WAIT] >= LAUNCH_WAIT)
		return false;
	rules_add_text(
		text,
		"the host makes %.0f launches a second and waits for the GPU only %.0f %% of the time; for %.0f %% it waits for locks while other threads of its process run",
		rate, 100 * f->share[GS_PART_GPU_WAIT], 100 * held_up);
	if (rules_is_python(f))
		rules_add_text(text,
			       ", as for the interpreter's: --python-gil shows each such wait");
	return true;
}
