/* Findings of a node that is followed: samples in, findings kept by number. */
#include "commands/common/node_findings.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "sources/sampler/sampler.h"

#define SPACING_NS 900000000ull

struct gs_node_findings {
	struct gs_sampler *sampler;   /* owned, as the following */
	struct gs_findings *findings; /* changed by the thread that takes samples alone */
	uint64_t taken_ns, gpus_ns;   /* when a sample was taken last, and of when its GPUs were */
	pthread_mutex_t lock;         /* of what follows */
	struct gs_kept_finding kept[GS_NODE_FINDINGS_KEPT];
	uint64_t n_changes;
	uint64_t n_begun[GS_DETECT_N_DETECTORS];
};

int gs_findings_node_new(const struct gs_findings_options *options, struct gs_node_findings **ret,
			 struct gs_err *err)
{
	struct gs_node_findings *f = calloc(1, sizeof(*f));
	int r;

	*ret = NULL;
	if (!f)
		return gs_err_set(err, -ENOMEM, "no memory");
	pthread_mutex_init(&f->lock, NULL);
	r = gs_findings_new(NULL, &f->findings);
	if (r < 0)
		gs_err_set(err, r, "no memory");
	if (r == 0 && options)
		r = gs_findings_set(f->findings, options, err);
	if (r == 0)
		r = gs_sampler_new(&f->sampler, err);
	if (r < 0)
		gs_findings_node_free(&f);
	*ret = f;
	return r;
}

void gs_findings_node_free(struct gs_node_findings **findings)
{
	struct gs_node_findings *f = *findings;

	if (!f)
		return;
	gs_findings_free(&f->findings);
	gs_sampler_free(&f->sampler);
	pthread_mutex_destroy(&f->lock);
	gs_free_p(findings);
}

/* The place of a finding: its own, or that of the oldest, of those that are over first. */
static struct gs_kept_finding *place_of(struct gs_node_findings *f,
					const struct gs_explain_finding *finding)
{
	struct gs_kept_finding *oldest = &f->kept[0];

	for (size_t i = 0; i < GS_NODE_FINDINGS_KEPT; i++) {
		struct gs_kept_finding *k = &f->kept[i];
		bool is_over = k->finding.ended_ns || !k->number;
		bool oldest_is_over = oldest->finding.ended_ns || !oldest->number;

		if (k->number && k->finding.begun.since_ns == finding->begun.since_ns &&
		    k->finding.begun.detector == finding->begun.detector &&
		    k->finding.subject == finding->subject &&
		    strcmp(k->finding.name, finding->name) == 0)
			return k;
		if (is_over != oldest_is_over ? is_over : k->number < oldest->number)
			oldest = k;
	}
	return oldest;
}

static void keep_finding(void *ctx, const struct gs_explain_finding *finding)
{
	struct gs_node_findings *f = ctx;
	struct gs_kept_finding *k;

	gs_findings_node_lock(f);
	k = place_of(f, finding);
	for (size_t i = 0; gs_detectors[i] && !finding->begun_reported; i++)
		f->n_begun[i] += gs_detectors[i]->name == finding->begun.detector;
	k->finding = *finding;
	k->number = ++f->n_changes;
	gs_findings_node_unlock(f);
}

int gs_findings_node_take(struct gs_node_findings *f, const struct gs_gpu_snapshot *gpus)
{
	uint64_t now_ns = gs_clock_mono_ns();
	bool is_new = gpus->time_ns != f->gpus_ns;
	struct gs_node_snapshot *node;
	int r = -ENOMEM;

	/* What has happened is reported once, in the reading that found it. */
	if (now_ns - f->taken_ns < SPACING_NS && !(is_new && gpus->n_events))
		return 0;
	f->taken_ns = now_ns;
	f->gpus_ns = gpus->time_ns;
	node = calloc(1, sizeof(*node));
	if (node)
		node->gpu = gs_gpu_snapshot_copy(gpus);
	if (node && node->gpu && !is_new)
		node->gpu->n_events = 0;
	if (node && node->gpu)
		r = gs_sampler_fill(f->sampler, false, true, node);
	if (r == 0)
		r = gs_findings_take_node(f->findings, node);
	gs_node_snapshot_free(&node);
	gs_findings_report(f->findings, keep_finding, f);
	return r;
}

void gs_findings_node_lock(struct gs_node_findings *f)
{
	pthread_mutex_lock(&f->lock);
}

void gs_findings_node_unlock(struct gs_node_findings *f)
{
	pthread_mutex_unlock(&f->lock);
}

const struct gs_kept_finding *gs_findings_node_next(const struct gs_node_findings *f,
						    uint64_t number)
{
	const struct gs_kept_finding *next = NULL;

	for (size_t i = 0; i < GS_NODE_FINDINGS_KEPT; i++)
		if (f->kept[i].number > number && (!next || f->kept[i].number < next->number))
			next = &f->kept[i];
	return next;
}

uint64_t gs_findings_node_last(const struct gs_node_findings *f)
{
	return f->n_changes;
}

uint64_t gs_findings_node_begun(const struct gs_node_findings *f, size_t detector)
{
	return f->n_begun[detector];
}

const struct gs_findings *gs_findings_node_run(const struct gs_node_findings *f)
{
	return f->findings;
}
