/*
 * Only the functions that the figures need have probes: launches and what NCCL offers. Calls of
 * processes that were never reported (children of a job's) count for the job of their parent.
 */
#include "sources/launches/launches.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/foreign.h"
#include "core/base/log.h"
#include "core/base/map.h"
#include "core/base/mem.h"
#include "model/trace/class.h"
#include "model/trace/func.h"
#include "sources/uprobe/uprobe.h"
#include "core/reader/reader.h"

#define RESCAN_NS 1000000000ull

struct sum { /* of one process */
	uint32_t pid, job;
	bool job_known;
	uint64_t launches, nccl_ns, calls;
};

struct gs_launches {
	struct gs_uprobe *probe;  /* NULL: not needed so far, or not possible */
	struct gs_reader *reader; /* of files, for the probe */
	struct gs_map job_of;     /* pid -> job */
	struct gs_map sum_of;     /* pid -> index of sums */
	struct sum *sums;         /* owned */
	size_t n_sums;
	uint64_t rescan_ns, n_lost, n_late;
	bool failed;
	char source[320];
};

int gs_launches_open(struct gs_launches **ret)
{
	struct gs_launches *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->job_of = GS_MAP_INIT(1u << 16);
	c->sum_of = GS_MAP_INIT(1u << 16);
	snprintf(c->source, sizeof(c->source), "no process has mapped a library of CUDA or NCCL");
	*ret = c;
	return 0;
}

void gs_launches_close(struct gs_launches **ref)
{
	struct gs_launches *c = *ref;

	if (!c)
		return;
	gs_uprobe_free(&c->probe);
	gs_reader_free(&c->reader);
	gs_map_fini(&c->job_of);
	gs_map_fini(&c->sum_of);
	free(c->sums);
	free(c);
	*ref = NULL;
}

/* ---- when ---- */

static int is_cuda(void *ctx, const struct gs_mapped_file *file)
{
	const char *name = strrchr(file->path, '/');

	name = name ? name + 1 : file->path;
	return strncmp(name, "libcuda.so", 10) == 0 || strncmp(name, "libcudart", 9) == 0 ||
	       strncmp(name, "libnccl", 7) == 0;
}

static void on_attach(void *ctx, const struct gs_attach *attach)
{
	gs_log(2, "%s: %u probes of CUDA and NCCL", attach->path, attach->n_probes);
}

static void on_late(void *ctx, const char *path, pid_t pid, uint64_t gap_ns)
{
	struct gs_launches *c = ctx;

	c->n_late++;
	gs_log(2, "%s: mapped by process %d %.1f ms before its probes were in place", path, pid,
	       (double)gap_ns / 1e6);
}

static bool start_counting(struct gs_launches *c, uint32_t pid)
{
	static const char *const globs[] = {"cudaLaunch*", "cudaGraphLaunch*", "cuLaunch*",
					    "cuGraphLaunch*", "nccl*"};
	pid_t first = (pid_t)pid;
	struct gs_uprobe_options o = {
		.size = sizeof(o),
		.pids = &first,
		.n_pids = 1,
		.follow = true,
		.uid = -1,
		.layers = 1u << GS_LAYER_CUDA_RUNTIME | 1u << GS_LAYER_CUDA_DRIVER |
			  1u << GS_LAYER_NCCL,
		.globs = globs,
		.n_globs = GS_ARRAY_LEN(globs),
		.ring_bytes = 64 << 10,
		.on_attach = on_attach,
		.on_late = on_late,
		.ctx = c,
	};
	const struct gs_reader_options reads_files = {.name = "files"};
	struct gs_err err = {{0}};
	int r = gs_reader_new(&reads_files, &c->reader, &err);

	o.reader = c->reader;
	if (r == 0)
		r = gs_uprobe_new(&o, &c->probe, &err);

	if (r < 0) {
		c->failed = true;
		snprintf(c->source, sizeof(c->source), "no probes on CUDA and NCCL: %s",
			 gs_err_text(&err, r));
		return false;
	}
	return true;
}

static void attach_process(struct gs_launches *c, uint32_t pid)
{
	if (!c->probe) {
		if (!start_counting(c, pid))
			return;
		/* The others may map it later: the watch sees that. */
		gs_map_for_each (&c->job_of, at)
			gs_uprobe_follow(c->probe, (pid_t)at->key);
	}
	gs_uprobe_follow(c->probe, (pid_t)pid);
	gs_uprobe_attach_process(c->probe, (pid_t)pid);
	snprintf(c->source, sizeof(c->source),
		 "probes on launches and on NCCL: %u in %u libraries, added up in the kernel",
		 gs_uprobe_n_probes(c->probe), gs_uprobe_n_files(c->probe));
}

/* A process that maps the library later is seen at a later look. */
static void look_for(struct gs_launches *c, uint32_t pid)
{
	if (!c->failed && gs_library_scan_process((pid_t)pid, is_cuda, NULL) > 0)
		attach_process(c, pid);
}

void gs_launches_follow(struct gs_launches *c, uint32_t pid, uint32_t job)
{
	uint64_t at;

	if (gs_map_put(&c->job_of, pid, job) < 0)
		c->n_lost++;
	if (gs_map_get(&c->sum_of, pid, &at)) {
		c->sums[at].job = job;
		c->sums[at].job_known = true;
	}
	if (c->probe)
		attach_process(c, pid);
	else
		look_for(c, pid);
}

/* ---- what ---- */

static struct sum *sum_of(struct gs_launches *c, uint32_t pid)
{
	uint64_t at, job;
	struct sum *more;

	if (gs_map_get(&c->sum_of, pid, &at))
		return &c->sums[at];
	more = realloc(c->sums, (c->n_sums + 1) * sizeof(*more));
	if (!more)
		return NULL;
	c->sums = more;
	if (gs_map_put(&c->sum_of, pid, c->n_sums) < 0)
		return NULL;
	c->sums[c->n_sums] = (struct sum){.pid = pid};
	if (gs_map_get(&c->job_of, pid, &job)) {
		c->sums[c->n_sums].job = (uint32_t)job;
		c->sums[c->n_sums].job_known = true;
	}
	return &c->sums[c->n_sums++];
}

static void on_cell(void *ctx, const struct gs_thread *thread, const struct gs_cell *before,
		    const struct gs_cell *now)
{
	const struct gs_func *f = gs_func_by_id(now->func);
	struct gs_launches *c = ctx;
	struct sum *s = sum_of(c, thread->pid);

	if (!s || !f) {
		c->n_lost++;
		return;
	}
	s->calls += now->calls - before->calls;
	if (f->desc.op == GS_CLASS_LAUNCH || f->desc.op == GS_CLASS_GRAPH_LAUNCH)
		s->launches += now->calls - before->calls;
	if (f->desc.layer == GS_LAYER_NCCL)
		s->nccl_ns += now->total_ns - before->total_ns;
}

static void harvest_counts(struct gs_launches *c)
{
	const struct gs_uprobe_handler h = {.cell = on_cell, .ctx = c};

	gs_uprobe_drain(c->probe, &h);
}

void gs_launches_poll(struct gs_launches *c)
{
	uint64_t now_ns = gs_clock_mono_ns();

	if (!c->probe) {
		if (c->failed || now_ns - c->rescan_ns < RESCAN_NS)
			return;
		c->rescan_ns = now_ns;
		gs_map_for_each (&c->job_of, at) {
			if (!c->probe)
				look_for(c, (uint32_t)at->key);
		}
		return;
	}
	gs_uprobe_watch_poll(c->probe);
	if (now_ns - c->rescan_ns >= RESCAN_NS) {
		c->rescan_ns = now_ns;
		gs_uprobe_rescan(c->probe);
	}
	harvest_counts(c);
}

void gs_launches_usage(struct gs_launches *c, uint32_t job, struct gs_job_usage *u)
{
	uint64_t launches = 0, nccl_ns = 0;
	size_t n = 0;

	u->launches = u->nccl_ratio = NAN;
	if (!c->probe)
		return;
	harvest_counts(c);
	for (size_t i = 0; i < c->n_sums; i++) {
		const struct sum *s = &c->sums[i];

		if (!s->job_known || s->job != job || !s->calls)
			continue;
		n++;
		launches += s->launches;
		nccl_ns += s->nccl_ns;
	}
	u->known |= 1u << GS_JOB_KNOWS_CUDA;
	u->launches = (double)launches / (u->n_gpus > 1 ? u->n_gpus : 1);
	if (n && u->elapsed_ns)
		u->nccl_ratio = (double)nccl_ns / (double)n / (double)u->elapsed_ns;
}

const char *gs_launches_source(const struct gs_launches *c)
{
	return c->source;
}

void gs_launches_losses(const struct gs_launches *c, char *out, size_t bytes)
{
	uint64_t n = c->n_lost;

	out[0] = '\0';
	for (size_t i = 0; i < c->n_sums; i++)
		n += c->sums[i].job_known ? 0 : c->sums[i].calls;
	if (c->probe)
		for (unsigned layer = 0; layer < GS_LAYER_COUNT; layer++)
			for (unsigned cause = 0; cause < GS_LOSS_COUNT; cause++)
				n += gs_uprobe_lost(c->probe, layer, (enum gs_loss)cause);
	if (n)
		snprintf(out, bytes, "%llu calls of CUDA or NCCL are not in the sums",
			 (unsigned long long)n);
	else if (gs_guard_n_refused())
		snprintf(
			out, bytes,
			"%llu files of CUDA or NCCL were left out, to limit what one user can cost",
			(unsigned long long)gs_guard_n_refused());
	else if (c->n_late)
		snprintf(out, bytes, "first calls into %llu libraries, mapped before their probes",
			 (unsigned long long)c->n_late);
}
