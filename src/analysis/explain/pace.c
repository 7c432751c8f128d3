/*
 * What a second of calls is like: time in launches, threads of kernels, copies of memory that is not pinned.
 * Each thread and process has a place where calls are added up; when its second is over, the sums are a
 * sample of its series. Processes whose begin was not seen may have pinned memory that is not known: of
 * copies nothing is said of them.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/explain/explain_int.h"
#include "core/base/fmt.h"
#include "core/base/vec.h"
#include "model/trace/class.h"
#include "model/trace/event.h"

#define STRETCH_NS   1000000000ull
#define MAX_PLACES   256
#define MAX_RANGES   1024 /* of pinned memory, of all processes: each copy looks for its own */
#define TINY_THREADS 4096 /* of a whole launch: 32 on each of 128 SMs */

struct place {             /* of a thread's or a process's second */
	uint32_t pid, tid; /* tid 0: of the process */
	char comm[16];
	uint64_t begin_ns; /* 0: no call yet */
	uint64_t launches, tiny, launch_ns, wait_ns;
	uint64_t copied_bytes, pageable_bytes;
	/* Of the last second that was a sample: launches and their time; of copies, by direction. */
	uint64_t last_launches, last_launch_ns, last_ns;
	uint64_t pageable_in, pageable_out, last_in, last_out;
	bool has_launched; /* ever: of other threads there is no series */
	bool is_blind;     /* it may have pinned memory that is not known */
};

struct range { /* of host memory that is pinned */
	uint32_t pid;
	uint64_t begin, end;
};

struct pace {
	struct place places[MAX_PLACES];
	uint32_t n_places, n_ranges, range_capacity;
	struct range *ranges; /* owned; in no order */
};

struct pace *explain_pace_new(void)
{
	return calloc(1, sizeof(struct pace));
}

void explain_pace_free(struct pace **pace)
{
	if (*pace)
		free((*pace)->ranges);
	free(*pace);
	*pace = NULL;
}

static struct place *find_place(struct pace *p, const struct gs_explain_call *c, uint32_t tid)
{
	struct place *found;

	for (uint32_t i = 0; i < p->n_places; i++)
		if (p->places[i].pid == c->pid && p->places[i].tid == tid)
			return &p->places[i];
	if (p->n_places == MAX_PLACES)
		return NULL;
	found = &p->places[p->n_places++];
	*found = (struct place){.pid = c->pid, .tid = tid, .is_blind = !c->seen_from_begin};
	snprintf(found->comm, sizeof(found->comm), "%.15s", c->comm);
	return found;
}

static bool is_pinned(const struct pace *p, uint32_t pid, uint64_t address)
{
	for (uint32_t i = 0; i < p->n_ranges; i++)
		if (p->ranges[i].pid == pid && address >= p->ranges[i].begin &&
		    address < p->ranges[i].end)
			return true;
	return false;
}

bool explain_gives_pinned(const char *name)
{
	return strstr(name, "Host") || strstr(name, "Managed");
}

/* 0 or -ENOMEM; where there are too many ranges, nothing more is said of its process's copies. */
static int note_memory(struct pace *p, struct place *of, const struct gs_explain_call *c)
{
	if (c->func_class == GS_CLASS_FREE) {
		for (uint32_t i = 0; i < p->n_ranges; i++)
			if (p->ranges[i].pid == c->pid && p->ranges[i].begin == c->arg[0])
				p->ranges[i--] = p->ranges[--p->n_ranges];
		return 0;
	}
	if (!explain_gives_pinned(c->name))
		return 0;
	if (p->n_ranges == MAX_RANGES || !c->arg[0]) {
		of->is_blind = true;
		return 0;
	}
	if (!gs_vec_reserve(&p->ranges, &p->range_capacity, p->n_ranges + 1))
		return -ENOMEM;
	p->ranges[p->n_ranges++] = (struct range){c->pid, c->arg[0], c->arg[0] + c->bytes};
	return 0;
}

static void note_copy(const struct pace *p, struct place *of, const struct gs_explain_call *c)
{
	uint64_t host = c->aux == GS_COPY_H2D ? c->arg[1] : c->aux == GS_COPY_D2H ? c->arg[0] : 0;

	/* Which of the two is the host's is not known of others; small ones are staged anyway. */
	if (!host || c->bytes <= 65536)
		return;
	of->copied_bytes += c->bytes;
	if (is_pinned(p, c->pid, host))
		return;
	of->pageable_bytes += c->bytes;
	*(c->aux == GS_COPY_H2D ? &of->pageable_in : &of->pageable_out) += c->bytes;
}

static void note_launch(struct place *process, struct place *thread,
			const struct gs_explain_call *c)
{
	double threads = (double)(uint32_t)c->arg[1] * (double)(c->arg[1] >> 32) *
			 (double)(uint32_t)c->arg[2] * (double)(c->arg[2] >> 32) *
			 (double)(uint32_t)c->arg[3] * (double)(c->arg[3] >> 32);

	if (process) {
		process->launches++;
		/* A launch whose grid was not read has none. */
		process->tiny += threads > 0 && threads < TINY_THREADS;
	}
	if (thread) {
		thread->launches++;
		thread->has_launched = true;
		thread->launch_ns += c->dur_ns;
	}
}

/* What a cause is said of; then the next second begins. */
static void note_second(struct place *p, uint64_t end_ns)
{
	p->last_launches = p->launches;
	p->last_launch_ns = p->launch_ns;
	p->last_ns = end_ns - p->begin_ns;
	p->last_in = p->pageable_in;
	p->last_out = p->pageable_out;
	p->begin_ns = end_ns;
	p->launches = p->tiny = p->launch_ns = p->wait_ns = p->copied_bytes = p->pageable_bytes = 0;
	p->pageable_in = p->pageable_out = 0;
}

static int take_samples(struct gs_explain *e, struct place *p, uint64_t end_ns)
{
	double seconds = (double)(end_ns - p->begin_ns) / 1e9;
	double of_process[] = {(double)p->tiny / (double)p->launches,
			       (double)p->launches / seconds};
	double of_copies[] = {(double)p->pageable_bytes / (double)p->copied_bytes,
			      (double)p->copied_bytes / seconds};
	double busy_ns = (double)p->launch_ns - (double)p->wait_ns;
	double of_thread[] = {fmax(0, busy_ns) / 1e9 / seconds, (double)p->launches / seconds};
	int r = 0;

	if (!p->tid && p->launches)
		r = explain_feed_calls(e, &gs_detect_tiny, GS_EXPLAIN_TINY_KERNELS, p->comm, p->pid,
				       0, end_ns, of_process);
	if (r == 0 && !p->tid && p->copied_bytes && !p->is_blind)
		r = explain_feed_calls(e, &gs_detect_pageable, GS_EXPLAIN_PAGEABLE, p->comm, p->pid,
				       0, end_ns, of_copies);
	if (r == 0 && p->tid && p->has_launched)
		r = explain_feed_calls(e, &gs_detect_launches, GS_EXPLAIN_LAUNCHES, p->comm, p->pid,
				       p->tid, end_ns, of_thread);
	note_second(p, end_ns);
	return r;
}

/* Its second may be over. */
static int move_place(struct gs_explain *e, struct place *p, uint64_t now_ns)
{
	if (!p->begin_ns)
		p->begin_ns = now_ns;
	return now_ns > p->begin_ns && now_ns - p->begin_ns >= STRETCH_NS
		       ? take_samples(e, p, now_ns)
		       : 0;
}

int explain_pace_take_call(struct gs_explain *e, struct pace *pace, const struct gs_explain_call *c)
{
	struct place *process = find_place(pace, c, 0), *thread = find_place(pace, c, c->tid);
	uint64_t end_ns = c->start_ns + c->dur_ns;
	int r = 0;

	if (c->failed)
		return 0;
	if (process)
		r = move_place(e, process, end_ns);
	if (r == 0 && thread)
		r = move_place(e, thread, end_ns);
	if (c->func_class == GS_CLASS_LAUNCH)
		note_launch(process, thread, c);
	else if (c->func_class == GS_CLASS_SYNC && thread)
		thread->wait_ns += c->dur_ns;
	else if (c->func_class == GS_CLASS_COPY && process)
		note_copy(pace, process, c);
	else if (r == 0 && process &&
		 (c->func_class == GS_CLASS_ALLOC || c->func_class == GS_CLASS_FREE))
		r = note_memory(pace, process, c);
	return r;
}

/* A launch that takes so long waits for something: the usual ones take 2 to 10 us. */
#define SLOW_LAUNCH_NS 20000

static void judge_launches(const struct place *p, struct gs_explain_cause *ret)
{
	uint64_t each_ns = p->last_launches ? p->last_launch_ns / p->last_launches : 0;
	char each[GS_FMT_BYTES], n[GS_FMT_BYTES];

	if (!each_ns || !p->last_ns)
		return;
	ret->key = each_ns >= SLOW_LAUNCH_NS ? "slow_launches" : "many_launches";
	ret->confidence = 1;
	ret->judged_ns = p->last_ns;
	snprintf(ret->text, sizeof(ret->text), "%s launches a second, each takes %s%s",
		 gs_fmt_count(n, (uint64_t)((double)p->last_launches * 1e9 / (double)p->last_ns)),
		 gs_fmt_ns(each, each_ns),
		 each_ns >= SLOW_LAUNCH_NS ? ": longer than a launch needs" : "");
}

static void judge_copies(const struct place *p, struct gs_explain_cause *ret)
{
	bool is_in = p->last_in >= p->last_out;
	uint64_t most = is_in ? p->last_in : p->last_out;
	char bytes[GS_FMT_BYTES];

	if (!most || !p->last_ns)
		return;
	ret->key = is_in ? "host_to_device" : "device_to_host";
	ret->confidence = (double)most / (double)(p->last_in + p->last_out);
	ret->judged_ns = p->last_ns;
	snprintf(ret->text, sizeof(ret->text),
		 "copies from the %s: %s a second, %.0f %% of these bytes",
		 is_in ? "host to the GPU" : "GPU to the host",
		 gs_fmt_bytes(bytes, (uint64_t)fmin(9e18, (double)most * 1e9 / (double)p->last_ns)),
		 ret->confidence * 100);
}

void explain_pace_judge(const struct pace *pace, const struct gs_explain_finding *f,
			struct gs_explain_cause *ret)
{
	uint32_t tid = f->subject == GS_EXPLAIN_LAUNCHES ? f->tid : 0;

	for (uint32_t i = 0; i < pace->n_places; i++) {
		const struct place *p = &pace->places[i];

		if (p->pid != f->pid || p->tid != tid)
			continue;
		if (f->subject == GS_EXPLAIN_LAUNCHES)
			judge_launches(p, ret);
		else
			judge_copies(p, ret);
	}
}
