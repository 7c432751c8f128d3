/*
 * Causes: what other layers did at the time of a finding.
 *
 * The wall-clock account of a thread sums to the time that passed, so that a step which takes longer took
 * longer in some of its parts, and by how much is known. A part that makes half of the difference is
 * named, and how much of the difference it is stands beside it. It says where the time went; a GPU or an
 * interpreter that was waited for may say why. Where no part makes half of it, or another makes as much (to a tenth of it),
 * or the account covers too little time, the cause is not known.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/explain/explain_int.h"
#include "analysis/gpu_health/gpu_health.h"
#include "core/base/fmt.h"
#include "core/base/mem.h"
#include "model/trace/class.h"
#include "model/trace/event.h"

#define MAX_THREADS 64
#define MAX_GPUS    64
#define N_POINTS    128            /* of the last two minutes */
#define POINT_NS    1000000000ull  /* no two are nearer */
#define BEFORE_NS   60000000000ull /* of the time before a finding that is looked at */
#define LEAST_NS    1000000000ull  /* of the time before, and of that after */
#define LEAST_STEPS 3              /* likewise */
#define GPU_PIDS    8
#define N_STRESS    512 /* of two minutes, each kind once a second, and some more */
#define N_ROWS_SAID 4   /* of the account, as evidence */

#define NAMED_SHARE 0.5 /* of the difference: then the part is named */
#define MOST_SHARE  1.5 /* more of it cannot be: the account is of something else */
#define CAME_SHARE  0.8 /* of samples since then: it holds; below 1 - CAME_SHARE: it did not */
#define OTHERS_MORE 0.1 /* of a GPU's time, by other processes */

/* After the parts of the account: what calls say. They lie within these parts. */
enum {
	ROW_GC = GS_PART_COUNT,
	ROW_GIL,
	ROW_LOADER,
	N_ROWS,
};

static const struct {
	const char *key, *title, *command;
} more_rows[N_ROWS - GS_PART_COUNT] = {
	{"gc", "garbage collection of Python", "--by line"},
	{"gil", "waiting for the interpreter's lock", "--by line"},
	{"loader", "waiting for the data loader", "--by operator"},
};

struct point {
	uint64_t time_ns;
	uint64_t value_ns[N_ROWS];        /* since the begin */
	uint64_t calls_ns[GS_PART_COUNT]; /* as in struct gs_explain_account */
};

struct thread {
	uint32_t pid, tid;
	uint64_t n_points; /* ever; the newest N_POINTS are kept */
	uint64_t calls_ns[N_ROWS - GS_PART_COUNT];
	struct point points[N_POINTS];
};

struct gpu_point {
	uint64_t time_ns;
	uint32_t holds;         /* bits of enum gs_gpu_condition */
	float by_pid[GPU_PIDS]; /* shares of its time, by process */
};

struct gpu {
	char name[GS_EXPLAIN_NAME_BYTES];
	uint32_t pids[GPU_PIDS];
	char comms[GPU_PIDS][16];
	uint32_t xid; /* the last */
	uint64_t xid_ns, n_points;
	struct gpu_point points[N_POINTS];
};

static const struct {
	const char *key, *title;
	bool is_count;
} stresses[GS_EXPLAIN_N_STRESSES] = {
	[GS_EXPLAIN_QUOTA] = {"cpu_quota", "stopped by the CPU quota of the cgroup", false},
	[GS_EXPLAIN_RETRANSMITS] = {"retransmits", "retransmitted TCP segments", true},
};

struct evidence {
	struct thread *threads[MAX_THREADS]; /* owned */
	struct gpu *gpus[MAX_GPUS];          /* owned */
	uint32_t n_threads, n_gpus;
	struct gs_explain_stress stress[N_STRESS]; /* the n-th at n % N_STRESS */
	uint64_t n_stress;                         /* so far; the newest are kept */
};

struct evidence *explain_evidence_new(void)
{
	return calloc(1, sizeof(struct evidence));
}

void explain_evidence_free(struct evidence **evidence)
{
	struct evidence *e = *evidence;

	for (uint32_t i = 0; e && i < e->n_threads; i++)
		free(e->threads[i]);
	for (uint32_t i = 0; e && i < e->n_gpus; i++)
		free(e->gpus[i]);
	free(e);
	*evidence = NULL;
}

static struct thread *thread_of(const struct evidence *e, uint32_t pid, uint32_t tid)
{
	for (uint32_t i = 0; i < e->n_threads; i++)
		if (e->threads[i]->tid == tid && e->threads[i]->pid == pid)
			return e->threads[i];
	return NULL;
}

int explain_evidence_follow(struct evidence *e, uint32_t pid, uint32_t tid)
{
	struct thread *t;

	if (!pid || !tid || thread_of(e, pid, tid) || e->n_threads == MAX_THREADS)
		return 0;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->pid = pid;
	t->tid = tid;
	e->threads[e->n_threads++] = t;
	return 0;
}

void explain_evidence_take_account(struct evidence *e, const struct gs_explain_account *a)
{
	struct thread *t = thread_of(e, a->pid, a->tid);
	struct point *p;

	if (!t)
		return;
	if (t->n_points &&
	    a->time_ns < t->points[(t->n_points - 1) % N_POINTS].time_ns + POINT_NS / 2)
		return;
	p = &t->points[t->n_points++ % N_POINTS];
	p->time_ns = a->time_ns;
	memcpy(p->value_ns, a->part_ns, GS_PART_COUNT * sizeof(*p->value_ns));
	memcpy(p->value_ns + GS_PART_COUNT, t->calls_ns, sizeof(t->calls_ns));
	memcpy(p->calls_ns, a->calls_ns, sizeof(p->calls_ns));
}

void explain_evidence_take_call(struct evidence *e, const struct gs_explain_call *c)
{
	struct thread *t;
	unsigned row;

	if (c->func_class == GS_CLASS_GC)
		row = ROW_GC;
	else if (c->func_class == GS_CLASS_GIL)
		row = ROW_GIL;
	else if (c->layer == GS_LAYER_TORCH && strncmp(c->name, "enumerate(DataLoader)#", 22) == 0)
		row = ROW_LOADER;
	else
		return;
	t = thread_of(e, c->pid, c->tid);
	if (t)
		t->calls_ns[row - GS_PART_COUNT] += c->dur_ns;
}

void explain_evidence_take_stress(struct evidence *e, const struct gs_explain_stress *stress)
{
	e->stress[e->n_stress++ % N_STRESS] = *stress;
}

/* --- GPUs --- */

static struct gpu *gpu_of(struct evidence *e, const char *name)
{
	struct gpu *g;

	for (uint32_t i = 0; i < e->n_gpus; i++)
		if (strcmp(e->gpus[i]->name, name) == 0)
			return e->gpus[i];
	g = e->n_gpus < MAX_GPUS ? calloc(1, sizeof(*g)) : NULL;
	if (!g)
		return NULL;
	snprintf(g->name, sizeof(g->name), "%s", name);
	e->gpus[e->n_gpus++] = g;
	return g;
}

/* Its place; one that has gone gives its own away. GPU_PIDS: there are too many. */
static uint32_t place_of(struct gpu *g, const struct gs_gpu_process *p)
{
	uint32_t at = 0;

	while (at < GPU_PIDS && g->pids[at] && g->pids[at] != p->pid)
		at++;
	if (at < GPU_PIDS && !g->pids[at]) {
		g->pids[at] = p->pid;
		snprintf(g->comms[at], sizeof(g->comms[at]), "%.15s", p->comm);
	}
	return at;
}

static void take_gpu(struct evidence *e, const struct gs_node_snapshot *node, uint32_t i)
{
	const struct gs_gpu_snapshot *s = node->gpu;
	char name[GS_EXPLAIN_NAME_BYTES];
	struct gs_gpu_health health;
	struct gpu_point *p;
	struct gpu *g;

	explain_name_gpu(node, i, name);
	g = gpu_of(e, name);
	if (!g)
		return;
	gs_gpu_health_judge(s, i, &health);
	p = &g->points[g->n_points++ % N_POINTS];
	*p = (struct gpu_point){.time_ns = node->time_ns, .holds = health.holds};
	for (uint32_t k = 0; k < s->n_processes; k++) {
		const struct gs_gpu_process *of = &s->process[k];
		uint32_t at = of->gpu == i && !of->ended ? place_of(g, of) : GPU_PIDS;

		if (at < GPU_PIDS && of->sm_ratio > 0)
			p->by_pid[at] = (float)of->sm_ratio;
	}
	for (uint32_t k = 0; k < s->n_events; k++)
		if (s->event[k].xid && gs_gpu_health_is_of(&s->event[k], &s->info[i])) {
			g->xid = s->event[k].xid;
			g->xid_ns = s->event[k].time_ns;
		}
}

void explain_evidence_take_gpus(struct evidence *e, const struct gs_node_snapshot *node)
{
	for (uint32_t i = 0; i < node->gpu->n_gpus; i++)
		take_gpu(e, node, i);
}

/* What held, as a share of the samples of a time. */
struct gpu_time {
	double holds[GS_GPU_CONDITION_COUNT], by_pid[GPU_PIDS];
	uint32_t n;
};

static void add_up_gpu(const struct gpu *g, uint64_t from_ns, uint64_t to_ns, struct gpu_time *ret)
{
	uint64_t n = g->n_points < N_POINTS ? g->n_points : N_POINTS;

	*ret = (struct gpu_time){.n = 0};
	for (uint64_t i = 0; i < n; i++) {
		const struct gpu_point *p = &g->points[i];

		if (p->time_ns < from_ns || p->time_ns > to_ns)
			continue;
		ret->n++;
		for (unsigned c = 0; c < GS_GPU_CONDITION_COUNT; c++)
			ret->holds[c] += p->holds >> c & 1;
		for (unsigned k = 0; k < GPU_PIDS; k++)
			ret->by_pid[k] += (double)p->by_pid[k];
	}
	for (unsigned c = 0; c < GS_GPU_CONDITION_COUNT && ret->n; c++)
		ret->holds[c] /= ret->n;
	for (unsigned k = 0; k < GPU_PIDS && ret->n; k++)
		ret->by_pid[k] /= ret->n;
}

/* What is a cause: conditions that slow a GPU. Its power cap is none: more work alone brings it about. */
static bool is_slowing(unsigned condition)
{
	return condition <= GS_GPU_CONDITION_HW_SLOWDOWN || condition == GS_GPU_CONDITION_SW_HEAT;
}

/* What came to the GPU with the finding, in words; returns its key, NULL: nothing is known. of_pid is
 * the process that has the trouble; 0: it is the GPU's own. */
static const char *find_gpu_cause(const struct gpu *g, uint64_t since_ns, uint64_t until_ns,
				  uint32_t of_pid, char *text, size_t bytes, double *ret_confidence)
{
	uint64_t from_ns = since_ns > BEFORE_NS ? since_ns - BEFORE_NS : 0;
	struct gpu_time before, after;

	add_up_gpu(g, from_ns, since_ns, &before);
	add_up_gpu(g, since_ns + 1, until_ns, &after);
	if (g->xid && g->xid_ns + POINT_NS >= since_ns && g->xid_ns <= since_ns + 10 * POINT_NS) {
		snprintf(text, bytes, "%s reported XID %u", g->name, g->xid);
		*ret_confidence = 1;
		return "xid";
	}
	if (before.n < LEAST_STEPS || after.n < LEAST_STEPS)
		return NULL;
	for (unsigned c = 0; c < GS_GPU_CONDITION_COUNT; c++)
		if (is_slowing(c) && after.holds[c] >= CAME_SHARE &&
		    before.holds[c] <= 1 - CAME_SHARE) {
			const char *key = gs_gpu_condition_key((enum gs_gpu_condition)c);

			snprintf(text, bytes, "%s has had %s since then", g->name, key);
			*ret_confidence = after.holds[c] - before.holds[c];
			return key;
		}
	for (unsigned k = 0; k < GPU_PIDS; k++)
		if (g->pids[k] && g->pids[k] != of_pid && (of_pid || before.by_pid[k] <= 0) &&
		    after.by_pid[k] - before.by_pid[k] >= OTHERS_MORE) {
			snprintf(text, bytes,
				 "%s %u uses %.0f %% of %s since then (%.0f %% before)",
				 g->comms[k], g->pids[k], after.by_pid[k] * 100, g->name,
				 before.by_pid[k] * 100);
			*ret_confidence = fmin(1, CAME_SHARE);
			return "neighbour";
		}
	return NULL;
}

/* The GPU of a process; NULL: it is on none, or on several. */
static const struct gpu *only_gpu_of(const struct evidence *e, uint32_t pid)
{
	const struct gpu *found = NULL;

	for (uint32_t i = 0; i < e->n_gpus; i++)
		for (unsigned k = 0; k < GPU_PIDS; k++)
			if (e->gpus[i]->pids[k] == pid) {
				if (found)
					return NULL;
				found = e->gpus[i];
			}
	return found;
}

void explain_evidence_judge_gpu(const struct evidence *e, const struct gs_explain_finding *f,
				uint64_t until_ns, struct gs_explain_cause *cause)
{
	for (uint32_t i = 0; i < e->n_gpus && !cause->key; i++)
		if (strcmp(e->gpus[i]->name, f->name) == 0) {
			cause->key = find_gpu_cause(e->gpus[i], f->begun.since_ns, until_ns, 0,
						    cause->text, sizeof(cause->text),
						    &cause->confidence);
			cause->command = cause->key ? "gpuscope top" : NULL;
		}
}

void explain_evidence_judge_throttle(const struct evidence *e, const struct gs_explain_finding *f,
				     uint64_t until_ns, struct gs_explain_cause *ret)
{
	unsigned most = GS_GPU_CONDITION_COUNT;
	struct gpu_time time = {.n = 0};
	const struct gpu *g = NULL;

	for (uint32_t i = 0; i < e->n_gpus; i++)
		if (strcmp(e->gpus[i]->name, f->name) == 0)
			g = e->gpus[i];
	if (!g)
		return;
	add_up_gpu(g, f->begun.since_ns, until_ns, &time);
	for (unsigned c = 0; c < GS_GPU_CONDITION_COUNT; c++)
		if (is_slowing(c) && time.holds[c] >= NAMED_SHARE &&
		    (most == GS_GPU_CONDITION_COUNT || time.holds[c] > time.holds[most]))
			most = c;
	if (most == GS_GPU_CONDITION_COUNT)
		return;
	ret->key = gs_gpu_condition_key((enum gs_gpu_condition)most);
	ret->command = "gpuscope top";
	ret->confidence = time.holds[most];
	ret->judged_ns = until_ns > f->begun.since_ns ? until_ns - f->begun.since_ns : 0;
	snprintf(ret->text, sizeof(ret->text), "%s in %.0f %% of its samples", ret->key,
		 time.holds[most] * 100);
}

/* --- threads --- */

struct window { /* of a thread's points */
	const struct point *from, *to;
};

static uint64_t length_of(const struct window *w)
{
	return w->from && w->to ? w->to->time_ns - w->from->time_ns : 0;
}

/* The longest one of points within the time. */
static struct window window_of(const struct thread *t, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t first = t->n_points > N_POINTS ? t->n_points - N_POINTS : 0;
	struct window w = {NULL, NULL};

	for (uint64_t i = first; i < t->n_points; i++) {
		const struct point *p = &t->points[i % N_POINTS];

		if (p->time_ns < from_ns || p->time_ns > to_ns)
			continue;
		w.from = w.from ? w.from : p;
		w.to = p;
	}
	return w;
}

/* Of a row, in ns of a time as long as a step. */
static double amount_of(const struct window *w, unsigned row, double step_ns)
{
	uint64_t from = w->from->value_ns[row], to = w->to->value_ns[row];

	return to > from ? (double)(to - from) / (double)length_of(w) * step_ns : 0;
}

static const char *key_of_row(unsigned row)
{
	return row < GS_PART_COUNT ? gs_account_part_name(row) : more_rows[row - GS_PART_COUNT].key;
}

static const char *title_of_row(unsigned row)
{
	return row < GS_PART_COUNT ? gs_account_part_title(row)
				   : more_rows[row - GS_PART_COUNT].title;
}

static const char *command_of_row(unsigned row)
{
	if (row >= GS_PART_COUNT)
		return more_rows[row - GS_PART_COUNT].command;
	if (row == GS_PART_GPU_WAIT || row == GS_PART_CUDA)
		return "--by stream";
	return row == GS_PART_OPERATOR ? "--by operator" : "--by thread";
}

/* Among the largest differences, the largest first. */
static void add_evidence(struct gs_explain_cause *c, const char *key, const char *title,
			 double before, double after)
{
	struct gs_explain_evidence item = {key, title, false, before, after};
	uint32_t at = c->n_evidence;

	while (at > 0 &&
	       fabs(after - before) > fabs(c->evidence[at - 1].after - c->evidence[at - 1].before))
		at--;
	if (at == N_ROWS_SAID || after == before)
		return;
	c->n_evidence += c->n_evidence < N_ROWS_SAID;
	memmove(&c->evidence[at + 1], &c->evidence[at],
		(c->n_evidence - at - 1) * sizeof(c->evidence[0]));
	c->evidence[at] = item;
}

/* Does another part make as much of the difference? Then it is not known which is the cause. Calls may lie in one another. */
static bool has_equal(const double before[N_ROWS], const double after[N_ROWS], double difference,
		      unsigned best)
{
	double most = (after[best] - before[best]) / difference;

	for (unsigned row = 0; row < GS_PART_COUNT && best < GS_PART_COUNT; row++) {
		double share = (after[row] - before[row]) / difference;

		if (row != best && share <= MOST_SHARE && most - share < EXPLAIN_CLEAR_SHARE)
			return true;
	}
	return false;
}

/* The row that makes most of the difference, one of calls before the part that they lie in; N_ROWS: none
 * makes enough of it, or another one makes as much. */
static unsigned find_row(const double before[N_ROWS], const double after[N_ROWS], double difference,
			 double *ret_share)
{
	unsigned best = N_ROWS;
	double most = 0;

	for (unsigned row = N_ROWS; row-- > 0;) {
		double share = (after[row] - before[row]) / difference;
		bool is_inner = best < N_ROWS && best >= GS_PART_COUNT && row < GS_PART_COUNT;

		if (share >= NAMED_SHARE && share <= MOST_SHARE && share > most && !is_inner) {
			best = row;
			most = share;
		}
	}
	*ret_share = fmin(1, most);
	return best < N_ROWS && has_equal(before, after, difference, best) ? N_ROWS : best;
}

static void describe_row(struct gs_explain_cause *c, unsigned row, double before, double after,
			 bool is_stall)
{
	char was[GS_FMT_BYTES], is[GS_FMT_BYTES], more[GS_FMT_BYTES];

	gs_fmt_ns(was, (uint64_t)before);
	gs_fmt_ns(is, (uint64_t)after);
	gs_fmt_ns(more, (uint64_t)fabs(after - before));
	if (is_stall)
		snprintf(c->text, sizeof(c->text), "%s, %.0f %% of the time since then",
			 title_of_row(row), c->confidence * 100);
	else
		snprintf(c->text, sizeof(c->text),
			 "%s: %s %s in each step (%s -> %s), %.0f %% of the difference",
			 title_of_row(row), more, after > before ? "more" : "less", was, is,
			 c->confidence * 100);
}

/* What was waited for may be known to be slow. */
static void refine_gpu_wait(const struct evidence *e, const struct gs_explain_finding *f,
			    uint64_t until_ns, struct gs_explain_cause *c)
{
	const struct gpu *g = only_gpu_of(e, f->pid);
	size_t n = strlen(c->text);
	char text[sizeof(c->text)];
	double confidence;
	const char *key = g ? find_gpu_cause(g, f->begun.since_ns, until_ns, f->pid, text,
					     sizeof(text), &confidence)
			    : NULL;

	if (!key)
		return;
	c->key = key;
	c->confidence *= confidence;
	snprintf(c->text + n, sizeof(c->text) - n, "; %s", text);
}

/* Of a time as long as a step. */
static double amount_of_stress(const struct evidence *e, unsigned kind, const struct window *w,
			       double step_ns)
{
	uint64_t n = e->n_stress < N_STRESS ? e->n_stress : N_STRESS;
	double sum = 0;

	for (uint64_t i = 0; i < n; i++) {
		const struct gs_explain_stress *s = &e->stress[i];

		if (s->kind == kind && s->time_ns > w->from->time_ns &&
		    s->time_ns <= w->to->time_ns)
			sum += s->amount;
	}
	return sum / (double)length_of(w) * step_ns;
}

struct stress_change {
	double before, after; /* as evidence has them */
	double before_per_s, after_per_s;
};

/* Beside the parts of the account; before NULL: of a stall. */
static struct stress_change add_stress(struct gs_explain_cause *c, const struct evidence *e,
				       unsigned kind, const struct gs_explain_finding *f,
				       const struct window *before, const struct window *after)
{
	double step_ns = before ? f->after : (double)length_of(after);
	struct stress_change change = {
		.before = before ? amount_of_stress(e, kind, before, f->begun.before) : 0,
		.after = amount_of_stress(e, kind, after, step_ns),
		.before_per_s = before ? amount_of_stress(e, kind, before, 1e9) : 0,
		.after_per_s = amount_of_stress(e, kind, after, 1e9),
	};

	if (change.before != change.after)
		c->evidence[c->n_evidence++] = (struct gs_explain_evidence){
			stresses[kind].key, stresses[kind].title, stresses[kind].is_count,
			change.before, change.after};
	return change;
}

/* A thread that its quota stops can run and is on no processor: the account has it as waiting for one. */
static void refine_runqueue(struct gs_explain_cause *c, const struct stress_change *quota,
			    double difference)
{
	size_t n = strlen(c->text);
	char more[GS_FMT_BYTES];

	if (quota->after - quota->before < NAMED_SHARE * difference)
		return;
	c->key = stresses[GS_EXPLAIN_QUOTA].key;
	gs_fmt_ns(more, (uint64_t)fmin(9e18, quota->after - quota->before));
	snprintf(c->text + n, sizeof(c->text) - n,
		 "; the CPU quota of the cgroup stopped it for %s more", more);
}

#define MANY_RETRANSMITS 1 /* a second, and twice as many as before */

static void refine_network(struct gs_explain_cause *c, const struct stress_change *sent)
{
	size_t n = strlen(c->text);

	if (sent->after_per_s < MANY_RETRANSMITS || sent->after_per_s < 2 * sent->before_per_s)
		return;
	c->key = stresses[GS_EXPLAIN_RETRANSMITS].key;
	snprintf(c->text + n, sizeof(c->text) - n,
		 "; TCP retransmitted %.3g segments a second (%.3g before)", sent->after_per_s,
		 sent->before_per_s);
}

void explain_evidence_judge_steps(const struct evidence *e, const struct gs_explain_finding *f,
				  uint64_t until_ns, struct gs_explain_cause *ret)
{
	bool is_stall = strcmp(f->begun.detector, gs_detect_stall.name) == 0;
	uint64_t since_ns = f->begun.since_ns;
	const struct thread *t = thread_of(e, f->pid, f->tid);
	double was[N_ROWS] = {0}, is[N_ROWS], difference = f->after - f->begun.before, share;
	struct gs_explain_cause c = {.key = NULL};
	struct stress_change quota, sent_again;
	struct window before, after;
	unsigned row;

	if (!t)
		return;
	before = window_of(t, since_ns > BEFORE_NS ? since_ns - BEFORE_NS : 0, since_ns);
	after = window_of(t, since_ns, until_ns);
	c.judged_ns = length_of(&after);
	if (c.judged_ns < LEAST_NS || c.judged_ns <= ret->judged_ns || difference == 0)
		return;
	if (!is_stall && (length_of(&before) < LEAST_NS ||
			  (double)length_of(&before) < LEAST_STEPS * f->begun.before ||
			  (double)c.judged_ns < LEAST_STEPS * f->after))
		return;
	for (row = 0; row < N_ROWS; row++) {
		was[row] = is_stall ? 0 : amount_of(&before, row, f->begun.before);
		is[row] = amount_of(&after, row, is_stall ? (double)c.judged_ns : f->after);
		add_evidence(&c, key_of_row(row), title_of_row(row), was[row], is[row]);
	}
	quota = add_stress(&c, e, GS_EXPLAIN_QUOTA, f, is_stall ? NULL : &before, &after);
	sent_again =
		add_stress(&c, e, GS_EXPLAIN_RETRANSMITS, f, is_stall ? NULL : &before, &after);
	row = find_row(was, is, is_stall ? (double)c.judged_ns : difference, &share);
	if (row < N_ROWS) {
		c.key = key_of_row(row);
		c.command = command_of_row(row);
		c.confidence = share;
		describe_row(&c, row, was[row], is[row], is_stall);
		if (row == GS_PART_GPU_WAIT && !is_stall)
			refine_gpu_wait(e, f, until_ns, &c);
		else if (row == GS_PART_RUNQUEUE)
			refine_runqueue(&c, &quota, is[row] - was[row]);
		else if (row == GS_PART_NETWORK)
			refine_network(&c, &sent_again);
	}
	*ret = c;
}

/* In ns of each second. */
static double amount_in_calls(const struct window *w, unsigned part)
{
	uint64_t from = w->from->calls_ns[part], to = w->to->calls_ns[part];

	return to > from ? (double)(to - from) / (double)length_of(w) * 1e9 : 0;
}

static void describe_calls(struct gs_explain_cause *c, unsigned part, double before, double after)
{
	char was[GS_FMT_BYTES], is[GS_FMT_BYTES];

	snprintf(
		c->text, sizeof(c->text),
		"%s inside of these calls: %s in each second (%s before), %.0f %% of the difference",
		gs_account_part_title(part), gs_fmt_ns(is, (uint64_t)fmin(9e18, after)),
		gs_fmt_ns(was, (uint64_t)fmin(9e18, before)), c->confidence * 100);
}

/* The account is of all calls of the thread: a part that changed by more than these calls is of others. */
void explain_evidence_judge_calls(const struct evidence *e, const struct gs_explain_finding *f,
				  uint64_t until_ns, struct gs_explain_cause *ret)
{
	double difference = (f->begun.after - f->begun.before) * f->calls_per_s;
	uint64_t since_ns = f->begun.since_ns;
	const struct thread *t = thread_of(e, f->pid, f->tid);
	const struct gpu *g = only_gpu_of(e, f->pid);
	struct gs_explain_cause c = {.key = NULL};
	struct window before, after;
	double most = 0, second = 0;

	if (!t || difference == 0)
		return;
	before = window_of(t, since_ns > BEFORE_NS ? since_ns - BEFORE_NS : 0, since_ns);
	after = window_of(t, since_ns, until_ns);
	c.judged_ns = length_of(&after);
	if (c.judged_ns < LEAST_NS || c.judged_ns <= ret->judged_ns ||
	    length_of(&before) < LEAST_NS)
		return;
	for (unsigned part = 0; part < GS_PART_COUNT; part++) {
		double was = amount_in_calls(&before, part), is = amount_in_calls(&after, part);
		double share = (is - was) / difference;

		add_evidence(&c, gs_account_part_name(part), gs_account_part_title(part), was, is);
		if (share > MOST_SHARE)
			continue;
		second = share > most ? most : fmax(second, share);
		most = fmax(most, share);
		if (share < NAMED_SHARE || fmin(1, share) <= c.confidence)
			continue;
		c.key = gs_account_part_name(part);
		c.command = command_of_row(part);
		c.confidence = fmin(1, share);
		describe_calls(&c, part, was, is);
	}
	if (c.key && most - second < EXPLAIN_CLEAR_SHARE) {
		c.key = c.command = NULL; /* another part is as likely */
		c.text[0] = '\0';
		c.confidence = 0;
	}
	if (!c.key && g)
		c.key = find_gpu_cause(g, since_ns, until_ns, f->pid, c.text, sizeof(c.text),
				       &c.confidence);
	*ret = c;
}
