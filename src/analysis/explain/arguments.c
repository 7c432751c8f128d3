/*
 * What calls were asked for: of calls that take longer or shorter, how many bytes each moves and, of copies, between
 * what, by the second. Sizes of one class differ by up to twice, so that longer calls may be larger ones; and a
 * copy from the host is another one than a copy within a GPU.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "analysis/explain/explain_int.h"
#include "core/base/fmt.h"
#include "model/trace/class.h"
#include "model/trace/func.h"

#define N_SECONDS   128 /* newest ones of a series */
#define SECOND_NS   1000000000ull
#define N_KINDS     6   /* enum gs_copy_kind */
#define LEAST_CALLS 8   /* before and after */
#define NAMED_SHARE 0.5 /* of the difference, and of the calls */
#define LEAST_MORE  0.05

struct call_second {
	uint64_t begin_ns, n;
	double bytes;
	uint32_t n_kind[N_KINDS];
};

struct arguments {
	uint64_t n_seconds; /* ever */
	bool are_copies;
	struct call_second seconds[N_SECONDS];
};

struct arguments *explain_arguments_new(void)
{
	return calloc(1, sizeof(struct arguments));
}

void explain_arguments_take(struct arguments *a, const struct gs_explain_call *c, uint64_t end_ns)
{
	struct call_second *s = &a->seconds[(a->n_seconds + N_SECONDS - 1) % N_SECONDS];

	if (!a->n_seconds || end_ns >= s->begin_ns + SECOND_NS) {
		s = &a->seconds[a->n_seconds++ % N_SECONDS];
		*s = (struct call_second){.begin_ns = end_ns};
	}
	s->n++;
	s->bytes += (double)c->bytes;
	a->are_copies = c->func_class == GS_CLASS_COPY;
	if (a->are_copies && c->aux < N_KINDS)
		s->n_kind[c->aux]++;
}

/* All seconds of one side of a time; a second that it lies in is of neither. */
static struct call_second sum_seconds(const struct arguments *a, uint64_t since_ns, bool after)
{
	struct call_second sum = {.n = 0};

	for (uint64_t i = a->n_seconds > N_SECONDS ? a->n_seconds - N_SECONDS : 0; i < a->n_seconds;
	     i++) {
		const struct call_second *s = &a->seconds[i % N_SECONDS];

		if (after ? s->begin_ns < since_ns : s->begin_ns + SECOND_NS > since_ns)
			continue;
		sum.n += s->n;
		sum.bytes += s->bytes;
		for (unsigned k = 0; k < N_KINDS; k++)
			sum.n_kind[k] += s->n_kind[k];
	}
	return sum;
}

static void judge_bytes(const struct gs_explain_finding *f, const struct call_second *before,
			const struct call_second *after, struct gs_explain_cause *ret)
{
	double was = before->bytes / (double)before->n, is = after->bytes / (double)after->n;
	double longer = f->begun.after / f->begun.before - 1, larger = is / was - 1;
	char from[GS_FMT_BYTES], to[GS_FMT_BYTES];

	if (!(was > 0) || fabs(larger) < LEAST_MORE || larger / longer < NAMED_SHARE)
		return;
	ret->key = "bytes";
	ret->confidence = fmin(1, larger / longer);
	snprintf(ret->text, sizeof(ret->text),
		 "each call moves %s, before %s: %.0f %% of the difference",
		 gs_fmt_bytes(to, (uint64_t)is), gs_fmt_bytes(from, (uint64_t)was),
		 ret->confidence * 100);
}

static unsigned most_of(const struct call_second *s)
{
	unsigned most = 0;

	for (unsigned k = 1; k < N_KINDS; k++)
		if (s->n_kind[k] > s->n_kind[most])
			most = k;
	return most;
}

static void judge_kind(const struct call_second *before, const struct call_second *after,
		       struct gs_explain_cause *ret)
{
	unsigned is = most_of(after), was = most_of(before);
	double more = (double)after->n_kind[is] / (double)after->n -
		      (double)before->n_kind[is] / (double)before->n;

	if (is == was || more < NAMED_SHARE)
		return;
	ret->key = "copy_direction";
	ret->confidence = more;
	snprintf(ret->text, sizeof(ret->text), "%.0f %% more of them copy %s, before mostly %s",
		 more * 100, gs_copy_kind_name(is), gs_copy_kind_name(was));
}

void explain_arguments_judge(const struct arguments *a, const struct gs_explain_finding *f,
			     uint64_t until_ns, struct gs_explain_cause *ret)
{
	struct call_second before = sum_seconds(a, f->begun.since_ns, false),
			   after = sum_seconds(a, f->begun.since_ns, true);

	if (before.n < LEAST_CALLS || after.n < LEAST_CALLS || !(f->begun.before > 0) ||
	    f->begun.after == f->begun.before)
		return;
	if (a->are_copies)
		judge_kind(&before, &after, ret);
	if (!ret->key)
		judge_bytes(f, &before, &after, ret);
	if (ret->key)
		ret->judged_ns = until_ns > f->begun.since_ns ? until_ns - f->begun.since_ns : 0;
}
