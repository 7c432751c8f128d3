/*
 * Series and their detectors. Steps: change, drift and stall, for each of the attempts that may turn out
 * to be the run's. Nodes: the state of each GPU, and the memory of GPUs, nodes and processes. Calls: the
 * density of latencies of each function, size class and process, which is eACGM's method by series.
 */
#include "analysis/explain/explain_int.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/fmt.h"
#include "core/base/map.h"
#include "core/base/mem.h"
#include "core/near/near.h"
#include "core/base/vec.h"

#define N_STEP_DETECTORS 3

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
	char name[GS_EXPLAIN_NAME_BYTES];
	uint32_t gpu, pid, tid; /* 0: not of one; of gpu 1 is the first */
	uint32_t xid;           /* its number; 0: not of one */
	char job[GS_EXPLAIN_JOB_BYTES];
	uint32_t open; /* place of the finding that holds; UINT32_MAX: it had none */
	/* Of calls: a finding that has not lasted long enough yet, and the newest call. */
	bool waits;
	struct gs_detect_finding waiting;
	uint64_t n_waiting;          /* calls since it began */
	double calls_per_s;          /* until it was long enough */
	struct arguments *arguments; /* owned; NULL: not of calls, or no memory */
	uint64_t last_ns;
};

struct step_slot {
	uint32_t run;
	uint64_t n_steps, sum_ns;
	struct series series[N_STEP_DETECTORS];
	struct findings findings;
};

struct gs_explain {
	union gs_detect_options options[GS_DETECT_N_DETECTORS]; /* in the order of gs_detectors */
	struct step_slot slots[GS_EXPLAIN_STEP_SLOTS];
	struct series *series; /* owned; of nodes */
	uint32_t n_series, n_call_series, series_capacity;
	struct gs_map by_key; /* subject and name -> index into series */
	struct gs_map calls;  /* process, function and size -> likewise; rare: RARE_BIT | calls */
	struct findings findings;
	struct evidence *evidence; /* owned */
	struct pace *pace;         /* owned */
	struct gpus *gpus;         /* owned */
	struct overlap *overlap;   /* owned */
	struct growth *growth;     /* owned */
	struct sites *sites;       /* owned */
	uint64_t n_samples, n_left_out;
};

/* In the map of calls: not the index of a series. */
#define RARE_BIT (1ull << 63)

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
	e->evidence = explain_evidence_new();
	e->pace = explain_pace_new();
	e->gpus = explain_gpus_new();
	e->overlap = explain_overlap_new();
	e->growth = explain_growth_new();
	e->sites = explain_sites_new();
	if (!e->evidence || !e->pace || !e->gpus || !e->overlap || !e->growth || !e->sites) {
		gs_explain_free(&e);
		return -ENOMEM;
	}
	e->by_key = GS_MAP_INIT(2 * GS_EXPLAIN_MAX_SERIES);
	e->calls = GS_MAP_INIT(GS_EXPLAIN_MAX_RARE);
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
	for (uint32_t i = 0; i < e->n_series; i++) {
		gs_detect_free(&e->series[i].d);
		free(e->series[i].arguments);
	}
	free(e->series);
	gs_map_fini(&e->by_key);
	gs_map_fini(&e->calls);
	free(e->findings.items);
	explain_evidence_free(&e->evidence);
	explain_pace_free(&e->pace);
	explain_gpus_free(&e->gpus);
	explain_overlap_free(&e->overlap);
	explain_growth_free(&e->growth);
	explain_sites_free(&e->sites);
	free(e);
	*explain = NULL;
}

#define LIST_OF_OPTIONS "`gpuscope explain --set help` lists them"

/* That there is no such option, and which one may be meant: the nearest of the nearest detector. -EINVAL. */
static int refuse_option(const char *key, const char *name, struct gs_err *err)
{
	const struct gs_conf_section *section;
	const struct gs_detector *detector;
	struct gs_near near;

	gs_near_init(&near, name);
	for (unsigned i = 0; gs_detectors[i]; i++)
		gs_near_add(&near, gs_detectors[i]->name);
	detector = near.name ? gs_detect_find(near.name) : NULL;
	section = detector ? detector->options->sections : NULL;
	if (section && key[strlen(name)]) {
		gs_near_init(&near, key + strlen(name) + 1);
		for (size_t k = 0; k < section->n_keys; k++)
			gs_near_add(&near, section->keys[k].name);
		if (near.name)
			return gs_err_set(
				err, -EINVAL,
				"no option \"%s\" of a detector; did you mean \"%s.%s\"? " LIST_OF_OPTIONS,
				key, detector->name, near.name);
	}
	return gs_err_set(err, -EINVAL, "no option \"%s\" of a detector: " LIST_OF_OPTIONS, key);
}

int gs_explain_set(struct gs_explain *explain, const char *key, const char *value,
		   struct gs_err *err)
{
	const char *dot = strchr(key, '.');
	const struct gs_conf_section *section;
	char name[64];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(key, "."), key);
	for (unsigned i = 0; dot && gs_detectors[i]; i++) {
		if (strcmp(gs_detectors[i]->name, name) != 0)
			continue;
		section = gs_detectors[i]->options->sections;
		for (size_t k = 0; k < section->n_keys; k++)
			if (strcmp(section->keys[k].name, dot + 1) == 0)
				return gs_conf_put(gs_detectors[i]->options, dot + 1, value,
						   &explain->options[i], err);
	}
	return refuse_option(key, name, err);
}

void gs_explain_set_namer(struct gs_explain *explain, gs_explain_name_fn name, void *ctx)
{
	explain_sites_set_namer(explain->sites, name, ctx);
}

static int start_series(struct gs_explain *e, struct series *s, const struct gs_detector *detector,
			enum gs_explain_subject subject, const char *name)
{
	*s = (struct series){.subject = subject};
	snprintf(s->name, sizeof(s->name), "%s", name);
	return gs_detect_new(detector, &e->options[index_of(detector)], &s->d);
}

/* What was reported and is over gives its place to a new one. UINT32_MAX: nothing is. */
static uint32_t find_done(const struct findings *list)
{
	uint32_t oldest = UINT32_MAX;

	for (uint32_t i = 0; i < list->n; i++)
		if (list->items[i].ended_reported &&
		    (oldest == UINT32_MAX ||
		     list->items[i].ended_ns < list->items[oldest].ended_ns))
			oldest = i;
	return oldest;
}

/* Of the series of the finding. */
static void judge_arguments(const struct gs_explain *e, struct gs_explain_finding *f,
			    uint64_t now_ns)
{
	for (uint32_t i = 0; i < e->n_series; i++)
		if (e->series[i].arguments && e->series[i].pid == f->pid &&
		    strcmp(e->series[i].name, f->name) == 0)
			explain_arguments_judge(e->series[i].arguments, f, now_ns, &f->cause);
}

/* Looks for the cause again, which may be clearer by now. */
static void judge_cause(const struct gs_explain *e, struct gs_explain_finding *f, uint64_t now_ns)
{
	if (now_ns > f->begun.since_ns + GS_EXPLAIN_CAUSE_NS && f->cause.judged_ns)
		return;
	if (f->ended_ns && f->ended_ns < now_ns)
		now_ns = f->ended_ns;
	switch (f->subject) {
	case GS_EXPLAIN_STEPS:
		explain_evidence_judge_steps(e->evidence, f, now_ns, &f->cause);
		return;
	case GS_EXPLAIN_GPU_STATE:
		explain_evidence_judge_gpu(e->evidence, f, now_ns, &f->cause);
		return;
	case GS_EXPLAIN_CALLS:
		explain_evidence_judge_calls(e->evidence, f, now_ns, &f->cause);
		if (!f->cause.key)
			judge_arguments(e, f, now_ns);
		return;
	case GS_EXPLAIN_THROTTLED:
		explain_evidence_judge_throttle(e->evidence, f, now_ns, &f->cause);
		return;
	case GS_EXPLAIN_GPU_MEMORY:
	case GS_EXPLAIN_NODE_MEMORY:
		explain_growth_judge(e->growth, f, now_ns, &f->cause);
		return;
	case GS_EXPLAIN_ALLOCATED:
		explain_sites_judge(e->sites, f, now_ns, &f->cause);
		return;
	case GS_EXPLAIN_IDLE_GPU:
		explain_growth_judge_holder(e->growth, f, now_ns, &f->cause);
		return;
	case GS_EXPLAIN_LAUNCHES:
	case GS_EXPLAIN_PAGEABLE:
		explain_pace_judge(e->pace, f, &f->cause);
		return;
	default: /* resident memory of one process, links, XIDs: what is found says it */
		return;
	}
}

static int add_finding(struct gs_explain *e, struct findings *list, struct series *s,
		       const struct gs_detect_finding *f)
{
	struct gs_explain_finding *item;

	s->open = list->n;
	if (list->n == GS_EXPLAIN_MAX_FINDINGS)
		s->open = find_done(list);
	if (s->open == UINT32_MAX) {
		e->n_left_out++;
		return 0;
	}
	if (!gs_vec_reserve(&list->items, &list->capacity, s->open + 1u))
		return -ENOMEM;
	item = &list->items[s->open];
	list->n += s->open == list->n;
	*item = (struct gs_explain_finding){.subject = s->subject,
					    .gpu = s->gpu,
					    .pid = s->pid,
					    .tid = s->tid,
					    .xid = s->xid,
					    .calls_per_s = s->calls_per_s,
					    .begun = *f,
					    .after = f->after};
	memcpy(item->name, s->name, sizeof(item->name));
	memcpy(item->job, s->job, sizeof(item->job));
	judge_cause(e, item, f->found_ns);
	return 0;
}

static void judge_causes(const struct gs_explain *e, const struct findings *list, uint64_t now_ns)
{
	for (uint32_t i = 0; i < list->n; i++)
		if (!list->items[i].ended_ns)
			judge_cause(e, &list->items[i], now_ns);
}

static void end_finding(const struct gs_explain *e, struct findings *list, struct series *s,
			const struct gs_detect_finding *f)
{
	struct gs_explain_finding *item;

	if (s->open == UINT32_MAX)
		return;
	item = &list->items[s->open];
	item->ended_ns = f->found_ns;
	item->became_usual = f->became_usual;
	/* What was of low density at the end is what was leaving that state. */
	if (s->subject != GS_EXPLAIN_GPU_STATE && s->subject != GS_EXPLAIN_CALLS)
		item->after = f->after;
	judge_cause(e, item, f->found_ns);
}

static int note_outcome(struct gs_explain *e, struct findings *list, struct series *s,
			enum gs_detect_outcome outcome, const struct gs_detect_finding *f)
{
	if (outcome == GS_DETECT_ENDED && s->waits)
		s->waits = false;
	else if (outcome == GS_DETECT_ENDED)
		end_finding(e, list, s, f);
	else if (outcome == GS_DETECT_BEGUN && s->subject == GS_EXPLAIN_CALLS) {
		s->waits = true;
		s->waiting = *f;
		s->n_waiting = 0;
	} else if (outcome == GS_DETECT_BEGUN) {
		return add_finding(e, list, s, f);
	}
	return 0;
}

static int feed_series(struct gs_explain *e, struct findings *list, struct series *s,
		       uint64_t time_ns, const double *values)
{
	struct gs_detect_finding f;
	enum gs_detect_outcome outcome = gs_detect_feed(s->d, time_ns, values, &f);

	return note_outcome(e, list, s, outcome, &f);
}

int gs_explain_take_gpu_work(struct gs_explain *explain, const struct gs_explain_gpu_work *work)
{
	return explain_overlap_take(explain, explain->overlap, work);
}

int gs_explain_take_window_end(struct gs_explain *explain, uint32_t pid)
{
	return explain_overlap_end(explain, explain->overlap, pid);
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
	/* Names may come after the first steps. */
	for (unsigned i = 0; i < N_STEP_DETECTORS && step->pid && !slot->series[i].pid; i++) {
		slot->series[i].pid = step->pid;
		slot->series[i].tid = step->tid;
	}
	if (r == 0)
		r = explain_evidence_follow(explain->evidence, step->pid, step->tid);
	if (r < 0) {
		clear_slot(slot);
		return r;
	}
	slot->n_steps++;
	slot->sum_ns += step->dur_ns;
	for (unsigned i = 0; i < N_STEP_DETECTORS && r == 0; i++)
		if (step->regular || step_detectors[i] == &gs_detect_stall)
			r = feed_series(explain, &slot->findings, &slot->series[i],
					step->start_ns + step->dur_ns, &dur_ns);
	return r;
}

void gs_explain_take_stress(struct gs_explain *explain, const struct gs_explain_stress *stress)
{
	explain_evidence_take_stress(explain->evidence, stress);
}

void gs_explain_take_account(struct gs_explain *explain, const struct gs_explain_account *account)
{
	explain_evidence_take_account(explain->evidence, account);
	for (unsigned k = 0; k < GS_EXPLAIN_STEP_SLOTS; k++)
		judge_causes(explain, &explain->slots[k].findings, account->time_ns);
	judge_causes(explain, &explain->findings, account->time_ns);
}

static void tick_series(struct gs_explain *e, struct findings *list, struct series *s,
			uint64_t now_ns)
{
	struct gs_detect_finding f;
	enum gs_detect_outcome outcome = gs_detect_tick(s->d, now_ns, &f);

	/* Without memory for the list the finding is left out, and counted. */
	if (note_outcome(e, list, s, outcome, &f) < 0)
		e->n_left_out++;
}

void gs_explain_tick(struct gs_explain *explain, uint64_t now_ns)
{
	for (unsigned k = 0; k < GS_EXPLAIN_STEP_SLOTS; k++) {
		struct step_slot *slot = &explain->slots[k];

		for (unsigned i = 0; i < N_STEP_DETECTORS && slot->run; i++)
			tick_series(explain, &slot->findings, &slot->series[i], now_ns);
	}
	/* An XID has a sample only when it comes. */
	for (uint32_t i = 0; i < explain->n_series; i++)
		if (explain->series[i].subject == GS_EXPLAIN_XID)
			tick_series(explain, &explain->findings, &explain->series[i], now_ns);
}

/* A series more, under this key. NULL with 0: no room. */
static int add_series(struct gs_explain *e, const struct gs_detector *detector,
		      enum gs_explain_subject subject, const char *name, struct gs_map *map,
		      uint64_t key, struct series **ret)
{
	int r;

	if (subject != GS_EXPLAIN_CALLS && e->n_series - e->n_call_series == GS_EXPLAIN_MAX_SERIES)
		return 0;
	if (!gs_vec_reserve(&e->series, &e->series_capacity, e->n_series + 1))
		return -ENOMEM;
	r = start_series(e, &e->series[e->n_series], detector, subject, name);
	if (r == 0)
		r = gs_map_put(map, key, e->n_series);
	if (r < 0) {
		gs_detect_free(&e->series[e->n_series].d);
		return r;
	}
	*ret = &e->series[e->n_series++];
	return 0;
}

/* The series of this name, made when it is new. NULL with 0 in *ret: no room for more. */
static int find_series(struct gs_explain *e, const struct gs_detector *detector,
		       enum gs_explain_subject subject, const char *name, struct series **ret)
{
	uint64_t key = gs_hash_bytes(name, strlen(name)) ^ (uint64_t)subject << 56, index;

	*ret = NULL;
	if (gs_map_get(&e->by_key, key, &index)) {
		*ret = &e->series[index];
		return 0;
	}
	return add_series(e, detector, subject, name, &e->by_key, key, ret);
}

int explain_feed_named(struct gs_explain *e, const struct gs_detector *detector,
		       enum gs_explain_subject subject, const char *name, struct owner owner,
		       uint64_t time_ns, const double *values)
{
	struct series *s;
	int r = find_series(e, detector, subject, name, &s);

	if (r == 0 && !s)
		e->n_left_out++;
	if (r == 0 && s) {
		snprintf(s->job, sizeof(s->job), "%s", owner.job);
		s->gpu = owner.gpu;
		s->pid = owner.pid;
		s->xid = owner.xid;
	}
	return r == 0 && s ? feed_series(e, &e->findings, s, time_ns, values) : r;
}

int explain_feed_calls(struct gs_explain *e, const struct gs_detector *detector,
		       enum gs_explain_subject subject, const char *comm, uint32_t pid,
		       uint32_t tid, uint64_t time_ns, const double *values)
{
	char name[GS_EXPLAIN_NAME_BYTES];
	struct series *s;
	int r;

	snprintf(name, sizeof(name), tid && tid != pid ? "%.15s %u thread %u" : "%.15s %u", comm,
		 pid, tid);
	r = find_series(e, detector, subject, name, &s);
	if (r < 0 || !s) {
		e->n_left_out += r == 0;
		return r;
	}
	s->pid = pid;
	s->tid = tid;
	return feed_series(e, &e->findings, s, time_ns, values);
}

/* Of an allocator what it uses and what it has reserved; where there is none, what grows is all. */
int gs_explain_take_memory(struct gs_explain *explain, const struct gs_explain_memory *m)
{
	bool has_allocator = isfinite(m->used_bytes);
	double both[] = {m->used_bytes, m->allocated_bytes};
	int r;

	explain_sites_take_second(explain->sites, m->pid, m->time_ns, both[!has_allocator]);
	r = explain_feed_calls(explain, &gs_detect_leak, GS_EXPLAIN_ALLOCATED, m->comm, m->pid, 0,
			       m->time_ns, &both[!has_allocator]);

	return r == 0 && has_allocator
		       ? explain_feed_calls(explain, &gs_detect_fragmentation, GS_EXPLAIN_ALLOCATOR,
					    m->comm, m->pid, 0, m->time_ns, both)
		       : r;
}

/* The class of a size is its power of two: "4 MiB" stands for 4 up to 8. */
static void name_calls(const struct gs_explain_call *call, char out[GS_EXPLAIN_NAME_BYTES])
{
	char size[GS_FMT_BYTES] = "";

	if (call->bytes)
		gs_fmt_bytes(size, 1ull << (63 - __builtin_clzll(call->bytes)));
	snprintf(out, GS_EXPLAIN_NAME_BYTES, "%.40s%s%s in %.15s %u", call->name,
		 *size ? " of " : "", size, call->comm, call->pid);
}

static int add_calls(struct gs_explain *e, const struct gs_explain_call *call, uint64_t key,
		     struct series **ret)
{
	char name[GS_EXPLAIN_NAME_BYTES];
	int r;

	if (e->n_call_series == GS_EXPLAIN_MAX_CALLS) {
		e->n_left_out++;
		return 0;
	}
	name_calls(call, name);
	r = add_series(e, &gs_detect_density, GS_EXPLAIN_CALLS, name, &e->calls, key, ret);
	if (r < 0)
		return r;
	e->n_call_series++;
	(*ret)->pid = call->pid;
	(*ret)->arguments = explain_arguments_new();
	return 0;
}

/* NULL in *ret: one of a few calls so far, or, which is counted, no room for more. */
static int find_calls(struct gs_explain *e, const struct gs_explain_call *call, struct series **ret)
{
	uint64_t what[3] = {call->process, call->function,
			    call->bytes ? 64 - (uint64_t)__builtin_clzll(call->bytes) : 0};
	uint64_t key = gs_hash_bytes(what, sizeof(what)), found = RARE_BIT;
	int r;

	*ret = NULL;
	if (gs_map_get(&e->calls, key, &found) && !(found & RARE_BIT)) {
		*ret = &e->series[found];
		return 0;
	}
	if ((found ^ RARE_BIT) + 1 >= GS_EXPLAIN_RARE_CALLS)
		return add_calls(e, call, key, ret);
	r = gs_map_put(&e->calls, key, found + 1);
	if (r != -ENOBUFS)
		return r;
	e->n_left_out++;
	return 0;
}

/* How much more or less of the time the calls of a waiting finding took than as many usual ones. */
static bool calls_matter(const struct series *s)
{
	double each_ns = fabs(s->waiting.after - s->waiting.before);
	double passed_ns = (double)(s->last_ns - s->waiting.found_ns);

	return each_ns * (double)s->n_waiting >= GS_EXPLAIN_CALLS_SHARE * passed_ns;
}

int gs_explain_take_call(struct gs_explain *explain, const struct gs_explain_call *call)
{
	double dur_ns = (double)call->dur_ns;
	struct series *s;
	int r = explain_evidence_follow(explain->evidence, call->pid, call->tid);

	explain_evidence_take_call(explain->evidence, call);
	explain_sites_take_call(explain->sites, call);
	if (r == 0)
		r = explain_pace_take_call(explain, explain->pace, call);
	if (r == 0)
		r = find_calls(explain, call, &s);
	if (r < 0 || !s)
		return r;
	/* Threads of a process report their calls one after another, not quite in the order of time. */
	if (call->start_ns + call->dur_ns > s->last_ns)
		s->last_ns = call->start_ns + call->dur_ns;
	if (s->arguments)
		explain_arguments_take(s->arguments, call, s->last_ns);
	r = feed_series(explain, &explain->findings, s, s->last_ns, &dur_ns);
	s->n_waiting++;
	if (r < 0 || !s->waits || s->last_ns - s->waiting.found_ns < GS_EXPLAIN_CALLS_NS)
		return r;
	s->waits = false;
	s->open = UINT32_MAX; /* unless it is large enough to be listed */
	s->tid = call->tid;
	s->calls_per_s = (double)s->n_waiting * 1e9 / (double)(s->last_ns - s->waiting.found_ns);
	return calls_matter(s) ? add_finding(explain, &explain->findings, s, &s->waiting) : 0;
}

static int take_process(struct gs_explain *e, const struct gs_node_snapshot *node,
			const struct gs_host_process *p)
{
	double bytes = p->rss_bytes >= 0 ? (double)p->rss_bytes : NAN;
	char name[64];

	if (p->flags & GS_HOST_PROCESS_ANCESTOR)
		return 0;
	snprintf(name, sizeof(name), "%.30s %.15s %u", node->name, p->comm, p->pid);
	return explain_feed_named(e, &gs_detect_leak, GS_EXPLAIN_PROCESS, name,
				  (struct owner){.job = p->job, .pid = p->pid}, node->time_ns,
				  &bytes);
}

int gs_explain_take_node(struct gs_explain *explain, const struct gs_node_snapshot *node)
{
	double used = node->host->sample.mem_used_bytes >= 0
			      ? (double)node->host->sample.mem_used_bytes
			      : NAN;
	int r = explain_feed_named(explain, &gs_detect_leak, GS_EXPLAIN_NODE_MEMORY, node->name,
				   (struct owner){.job = ""}, node->time_ns, &used);

	explain->n_samples++;
	explain_evidence_take_gpus(explain->evidence, node);
	explain_growth_take(explain->growth, node);
	for (uint32_t i = 0; i < node->gpu->n_gpus && r == 0; i++)
		r = explain_gpus_take(explain, explain->gpus, node, i);
	for (uint32_t i = 0; i < node->host->n_processes && r == 0; i++)
		r = take_process(explain, node, &node->host->process[i]);
	judge_causes(explain, &explain->findings, node->time_ns);
	gs_explain_tick(explain, node->time_ns);
	return r;
}

#define REPORT_DELAY_NS 5000000000ull

static void report_list(const struct gs_explain *e, struct findings *list, uint64_t now_ns,
			gs_explain_report_fn fn, void *ctx)
{
	for (uint32_t i = 0; i < list->n; i++) {
		struct gs_explain_finding *f = &list->items[i];

		if (!f->begun_reported && !f->ended_ns && !f->cause.key &&
		    now_ns < f->begun.found_ns + REPORT_DELAY_NS)
			continue;
		explain_sites_describe(e->sites, &f->cause);
		if (!f->begun_reported || (f->ended_ns && !f->ended_reported))
			fn(ctx, f);
		f->begun_reported = true;
		f->ended_reported = f->ended_ns != 0;
	}
}

void gs_explain_report(struct gs_explain *explain, uint64_t now_ns, gs_explain_report_fn fn,
		       void *ctx)
{
	struct step_slot *longest = &explain->slots[0];

	for (unsigned i = 1; i < GS_EXPLAIN_STEP_SLOTS; i++)
		if (explain->slots[i].sum_ns > longest->sum_ns)
			longest = &explain->slots[i];
	report_list(explain, &explain->findings, now_ns, fn, ctx);
	report_list(explain, &longest->findings, now_ns, fn, ctx);
}

static int by_begin(const void *a, const void *b)
{
	const struct gs_explain_finding *x = a, *y = b;

	return (x->begun.since_ns > y->begun.since_ns) - (x->begun.since_ns < y->begun.since_ns);
}

static uint64_t distance_of(const struct gs_explain_finding *a, const struct gs_explain_finding *b)
{
	uint64_t x = a->begun.since_ns, y = b->begun.since_ns;

	return x > y ? x - y : y - x;
}

/* Finding k is put in where it belongs among those beside f, if it is near enough. */
static void put_beside(const struct findings *list, struct gs_explain_finding *f, uint32_t k)
{
	uint64_t distance = distance_of(f, &list->items[k]);
	uint32_t at = f->n_beside;

	while (at > 0 && distance < distance_of(f, &list->items[f->beside[at - 1]]))
		at--;
	if (distance > GS_EXPLAIN_NEAR_NS || at == GS_EXPLAIN_BESIDE)
		return;
	f->n_beside += f->n_beside < GS_EXPLAIN_BESIDE;
	memmove(&f->beside[at + 1], &f->beside[at], (f->n_beside - at - 1) * sizeof(f->beside[0]));
	f->beside[at] = k;
}

static void link_findings(struct findings *list)
{
	for (uint32_t i = 0; i < list->n; i++)
		for (uint32_t k = 0; k < list->n; k++)
			if (list->items[i].subject != list->items[k].subject)
				put_beside(list, &list->items[i], k);
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
	for (uint32_t i = 0; i < list->n; i++)
		explain_sites_describe(explain->sites, &list->items[i].cause);
	*ret = (struct gs_explain_result){
		.findings = list->items,
		.n_findings = list->n,
		.n_steps = run && steps->run == run ? steps->n_steps : 0,
		.n_samples = explain->n_samples,
		.n_left_out = explain->n_left_out,
	};
	return 0;
}
