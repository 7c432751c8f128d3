/*
 * Series and their detectors. Steps: change, drift and stall, for each of the attempts that may turn out
 * to be the run's. Nodes: the state of each GPU, and the memory of GPUs, nodes and processes.
 */
#include "analysis/explain/explain.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/map.h"
#include "core/base/mem.h"
#include "core/base/vec.h"

#define N_STEP_DETECTORS 3
#define N_DETECTORS_MAX  16

/* Which detectors follow steps; a stall is of all steps, the others of regular ones. */
static const struct gs_detector *const step_detectors[N_STEP_DETECTORS] = {
	&gs_detect_change, &gs_detect_drift, &gs_detect_stall};

struct findings {
	struct gs_explain_finding *items; /* owned */
	uint32_t n, capacity;
};

struct series { /* of one detector */
	struct gs_detect *d;
	enum gs_explain_subject subject;
	char name[64];
	bool holds;
	uint32_t open; /* place of the finding that holds; UINT32_MAX: it had none */
};

struct step_slot {
	uint32_t run;
	uint64_t n_steps;
	struct series series[N_STEP_DETECTORS];
	struct findings findings;
};

struct gs_explain {
	union { /* of each row of gs_detectors, in its order */
		struct gs_detect_change_options change;
		struct gs_detect_density_options density;
		char bytes[256];
	} options[N_DETECTORS_MAX];
	struct step_slot slots[GS_EXPLAIN_STEP_SLOTS];
	struct series *series; /* owned; of nodes */
	uint32_t n_series, series_capacity;
	struct gs_map by_key; /* subject and name -> index into series */
	struct findings findings;
	uint64_t n_samples, n_left_out;
};

static unsigned index_of(const struct gs_detector *detector)
{
	unsigned i = 0;

	while (gs_detectors[i] != detector)
		i++;
	return i;
}

int gs_explain_new(struct gs_explain **ret)
{
	struct gs_explain *e = calloc(1, sizeof(*e));

	if (!e)
		return -ENOMEM;
	e->by_key = (struct gs_map)GS_MAP_INIT(2 * GS_EXPLAIN_MAX_SERIES);
	for (unsigned i = 0; gs_detectors[i]; i++)
		gs_detect_set_defaults(gs_detectors[i], &e->options[i]);
	*ret = e;
	return 0;
}

static void clear_slot(struct step_slot *slot)
{
	for (unsigned i = 0; i < N_STEP_DETECTORS; i++)
		gs_detect_free(&slot->series[i].d);
	free(slot->findings.items);
	*slot = (struct step_slot){0};
}

void gs_explain_free(struct gs_explain **explain)
{
	struct gs_explain *e = *explain;

	if (!e)
		return;
	for (unsigned i = 0; i < GS_EXPLAIN_STEP_SLOTS; i++)
		clear_slot(&e->slots[i]);
	for (uint32_t i = 0; i < e->n_series; i++)
		gs_detect_free(&e->series[i].d);
	free(e->series);
	gs_map_fini(&e->by_key);
	free(e->findings.items);
	free(e);
	*explain = NULL;
}

int gs_explain_set(struct gs_explain *explain, const char *key, const char *value,
		   struct gs_err *err)
{
	const char *dot = strchr(key, '.');
	const struct gs_conf_section *section;
	char name[64];

	snprintf(name, sizeof(name), "%.*s", dot ? (int)(dot - key) : 0, key);
	for (unsigned i = 0; dot && gs_detectors[i]; i++) {
		if (strcmp(gs_detectors[i]->name, name) != 0)
			continue;
		section = gs_detectors[i]->options->sections;
		for (size_t k = 0; k < section->n_keys; k++)
			if (strcmp(section->keys[k].name, dot + 1) == 0)
				return gs_conf_put(gs_detectors[i]->options, dot + 1, value,
						   &explain->options[i], err);
	}
	return gs_err_set(err, -EINVAL, "no option \"%s\" of a detector", key);
}

static int start_series(struct gs_explain *e, struct series *s, const struct gs_detector *detector,
			enum gs_explain_subject subject, const char *name)
{
	*s = (struct series){.subject = subject};
	snprintf(s->name, sizeof(s->name), "%s", name);
	return gs_detect_new(detector, &e->options[index_of(detector)], &s->d);
}

static int note_outcome(struct gs_explain *e, struct findings *list, struct series *s,
			enum gs_detect_outcome outcome, const struct gs_detect_finding *f)
{
	struct gs_explain_finding *item;

	if (outcome == GS_DETECT_NOTHING)
		return 0;
	if (outcome == GS_DETECT_ENDED) {
		s->holds = false;
		if (s->open == UINT32_MAX)
			return 0;
		item = &list->items[s->open];
		item->ended_ns = f->found_ns;
		item->became_usual = f->became_usual;
		/* What was unusual of a GPU at the end is what was leaving that state. */
		if (s->subject != GS_EXPLAIN_GPU_STATE)
			item->after = f->after;
		return 0;
	}
	s->holds = true;
	s->open = UINT32_MAX;
	if (list->n == GS_EXPLAIN_MAX_FINDINGS) {
		e->n_left_out++;
		return 0;
	}
	if (!gs_vec_reserve(&list->items, &list->capacity, list->n + 1))
		return -ENOMEM;
	s->open = list->n;
	item = &list->items[list->n++];
	*item = (struct gs_explain_finding){.subject = s->subject, .begun = *f, .after = f->after};
	snprintf(item->name, sizeof(item->name), "%s", s->name);
	return 0;
}

static int feed_series(struct gs_explain *e, struct findings *list, struct series *s,
		       uint64_t time_ns, const double *values)
{
	struct gs_detect_finding f;
	enum gs_detect_outcome outcome = gs_detect_feed(s->d, time_ns, values, &f);

	return note_outcome(e, list, s, outcome, &f);
}

int gs_explain_take_step(struct gs_explain *explain, const struct gs_explain_step *step)
{
	struct step_slot *slot = &explain->slots[step->slot];
	double dur_ns = (double)step->dur_ns;
	int r = 0;

	if (slot->run != step->run) {
		clear_slot(slot);
		slot->run = step->run;
		for (unsigned i = 0; i < N_STEP_DETECTORS && r == 0; i++)
			r = start_series(explain, &slot->series[i], step_detectors[i],
					 GS_EXPLAIN_STEPS, "");
	}
	if (r < 0) {
		clear_slot(slot);
		return r;
	}
	slot->n_steps++;
	for (unsigned i = 0; i < N_STEP_DETECTORS && r == 0; i++)
		if (step->regular || step_detectors[i] == &gs_detect_stall)
			r = feed_series(explain, &slot->findings, &slot->series[i],
					step->start_ns + step->dur_ns, &dur_ns);
	return r;
}

void gs_explain_tick(struct gs_explain *explain, uint64_t now_ns)
{
	for (unsigned k = 0; k < GS_EXPLAIN_STEP_SLOTS; k++) {
		struct step_slot *slot = &explain->slots[k];

		for (unsigned i = 0; i < N_STEP_DETECTORS && slot->run; i++) {
			struct gs_detect_finding f;
			enum gs_detect_outcome outcome =
				gs_detect_tick(slot->series[i].d, now_ns, &f);

			/* Without memory for the list the finding is left out, and counted. */
			if (note_outcome(explain, &slot->findings, &slot->series[i], outcome, &f) <
			    0)
				explain->n_left_out++;
		}
	}
}

/* The series of this name, made when it is new. NULL with 0 in *ret: no room for more. */
static int find_series(struct gs_explain *e, const struct gs_detector *detector,
		       enum gs_explain_subject subject, const char *name, struct series **ret)
{
	uint64_t key = gs_hash_bytes(name, strlen(name)) ^ (uint64_t)subject << 56, index;
	int r;

	*ret = NULL;
	if (gs_map_get(&e->by_key, key, &index)) {
		*ret = &e->series[index];
		return 0;
	}
	if (e->n_series == GS_EXPLAIN_MAX_SERIES)
		return 0;
	if (!gs_vec_reserve(&e->series, &e->series_capacity, e->n_series + 1))
		return -ENOMEM;
	r = start_series(e, &e->series[e->n_series], detector, subject, name);
	if (r == 0)
		r = gs_map_put(&e->by_key, key, e->n_series);
	if (r < 0) {
		gs_detect_free(&e->series[e->n_series].d);
		return r;
	}
	*ret = &e->series[e->n_series++];
	return 0;
}

static int feed_named(struct gs_explain *e, const struct gs_detector *detector,
		      enum gs_explain_subject subject, const char *name, uint64_t time_ns,
		      const double *values)
{
	struct series *s;
	int r = find_series(e, detector, subject, name, &s);

	if (r == 0 && !s)
		e->n_left_out++;
	return r == 0 && s ? feed_series(e, &e->findings, s, time_ns, values) : r;
}

static int take_gpu(struct gs_explain *e, const struct gs_node_snapshot *node, uint32_t i)
{
	const struct gs_gpu_sample *s = &node->gpu->sample[i];
	double used = gs_gpu_value(s, GS_GPU_MEM_USED);
	/* What is not known is not finite, and then the detector leaves the sample out. */
	double state[GS_DETECT_MAX_VALUES] = {
		used / gs_gpu_value(s, GS_GPU_MEM_TOTAL),
		gs_gpu_value(s, GS_GPU_POWER) / gs_gpu_value(s, GS_GPU_POWER_LIMIT),
		gs_gpu_value(s, GS_GPU_TEMP_GPU),
	};
	char number[GS_GPU_NUMBER_BYTES], name[64];
	int r;

	snprintf(name, sizeof(name), "%.30s GPU %s", node->name,
		 gs_gpu_number(number, &node->gpu->info[i]));
	r = feed_named(e, &gs_detect_gpu_density, GS_EXPLAIN_GPU_STATE, name, node->time_ns, state);
	if (r == 0)
		r = feed_named(e, &gs_detect_leak, GS_EXPLAIN_GPU_MEMORY, name, node->time_ns,
			       &used);
	return r;
}

static int take_process(struct gs_explain *e, const struct gs_node_snapshot *node,
			const struct gs_host_process *p)
{
	double bytes = p->rss_bytes >= 0 ? (double)p->rss_bytes : NAN;
	char name[64];

	if (p->flags & GS_HOST_PROCESS_ANCESTOR)
		return 0;
	snprintf(name, sizeof(name), "%.30s %.15s %u", node->name, p->comm, p->pid);
	return feed_named(e, &gs_detect_leak, GS_EXPLAIN_PROCESS, name, node->time_ns, &bytes);
}

int gs_explain_take_node(struct gs_explain *explain, const struct gs_node_snapshot *node)
{
	double used = node->host->sample.mem_used_bytes >= 0
			      ? (double)node->host->sample.mem_used_bytes
			      : NAN;
	int r = feed_named(explain, &gs_detect_leak, GS_EXPLAIN_NODE_MEMORY, node->name,
			   node->time_ns, &used);

	explain->n_samples++;
	for (uint32_t i = 0; i < node->gpu->n_gpus && r == 0; i++)
		r = take_gpu(explain, node, i);
	for (uint32_t i = 0; i < node->host->n_processes && r == 0; i++)
		r = take_process(explain, node, &node->host->process[i]);
	gs_explain_tick(explain, node->time_ns);
	return r;
}

static int by_begin(const void *a, const void *b)
{
	const struct gs_explain_finding *x = a, *y = b;

	return (x->begun.since_ns > y->begun.since_ns) - (x->begun.since_ns < y->begun.since_ns);
}

/* Does the other one hold at about the time when this one begins? */
static bool is_beside(const struct gs_explain_finding *f, const struct gs_explain_finding *other)
{
	uint64_t at = f->begun.since_ns, until = other->ended_ns ? other->ended_ns : UINT64_MAX;

	return other->begun.since_ns <= at + GS_EXPLAIN_NEAR_NS &&
	       (until >= at || at - until <= GS_EXPLAIN_NEAR_NS);
}

static void link_findings(struct findings *list)
{
	for (uint32_t i = 0; i < list->n; i++)
		for (uint32_t k = 0; k < list->n; k++) {
			struct gs_explain_finding *f = &list->items[i];

			if (k != i && f->n_beside < GS_EXPLAIN_BESIDE &&
			    f->subject != list->items[k].subject && is_beside(f, &list->items[k]))
				f->beside[f->n_beside++] = k;
		}
}

int gs_explain_finish(struct gs_explain *explain, unsigned slot, uint32_t run,
		      struct gs_explain_result *ret)
{
	struct step_slot *steps = &explain->slots[slot % GS_EXPLAIN_STEP_SLOTS];
	struct findings *list = &explain->findings;
	uint32_t n = run && steps->run == run ? steps->findings.n : 0;

	if (!gs_vec_reserve(&list->items, &list->capacity, list->n + n))
		return -ENOMEM;
	if (n)
		memcpy(list->items + list->n, steps->findings.items, n * sizeof(*list->items));
	list->n += n;
	if (list->n)
		qsort(list->items, list->n, sizeof(*list->items), by_begin);
	link_findings(list);
	*ret = (struct gs_explain_result){
		.findings = list->items,
		.n_findings = list->n,
		.n_steps = run && steps->run == run ? steps->n_steps : 0,
		.n_samples = explain->n_samples,
		.n_left_out = explain->n_left_out,
	};
	return 0;
}
