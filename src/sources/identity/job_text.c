/*
 * Small texts of Slurm: numbers, lists of nodes and of indices, GRES; and the empty job.
 */
#include <ctype.h>
#include <string.h>

#include "core/base/mem.h"
#include "sources/identity/job_int.h"

#define NODES_MAX  100000
#define STEPS_MAX  (2 * NODES_MAX)
#define NAME_BYTES 256
#define DIGITS_MAX 18

void gs_job_task_clear(struct gs_job_task *task)
{
	*task = (struct gs_job_task){.task_id = -1, .rank = -1, .local_rank = -1};
}

void gs_job_name_id(struct gs_job *j)
{
	/* Arrays and components are claimed too: the number alone distinguishes claims. */
	if (j->is_claimed && j->job_id > 0)
		snprintf(j->id, sizeof(j->id), "%lld (claimed by %s)", (long long)j->job_id,
			 j->user);
	else if (j->is_claimed)
		snprintf(j->id, sizeof(j->id), "%s (claimed by %s)", j->sluid, j->user);
	else if (j->array_job_id > 0 && j->array_task_id >= 0)
		snprintf(j->id, sizeof(j->id), "%lld_%lld", (long long)j->array_job_id,
			 (long long)j->array_task_id);
	else if (j->het_job_id > 0 && j->het_offset >= 0)
		snprintf(j->id, sizeof(j->id), "%lld+%lld", (long long)j->het_job_id,
			 (long long)j->het_offset);
	else if (j->job_id > 0)
		snprintf(j->id, sizeof(j->id), "%lld", (long long)j->job_id);
	else if (j->sluid[0])
		snprintf(j->id, sizeof(j->id), "%s", j->sluid);
}

bool gs_job_number(const char *text, size_t bytes, int64_t *ret)
{
	int64_t n = 0;
	size_t i = 0;

	while (bytes && isspace((unsigned char)text[bytes - 1]))
		bytes--;
	while (i < bytes && isspace((unsigned char)text[i]))
		i++;
	if (i == bytes || bytes - i > DIGITS_MAX)
		return false;
	for (; i < bytes; i++) {
		if (!isdigit((unsigned char)text[i]))
			return false;
		n = n * 10 + (text[i] - '0');
	}
	*ret = n;
	return true;
}

/* A number at *at, which moves after it; its digits in *ret_width. */
static bool take_number(const char **at, const char *end, int64_t *ret, size_t *ret_width)
{
	const char *p = *at;

	while (p < end && isdigit((unsigned char)*p))
		p++;
	*ret_width = (size_t)(p - *at);
	if (!gs_job_number(*at, *ret_width, ret))
		return false;
	*at = p;
	return true;
}

/* --- node lists --- */

struct walk {
	bool (*visit)(void *ctx, const char *name, size_t at);
	void *ctx;
	size_t n;
	size_t n_steps; /* also of those that come to no name */
	bool end;
};

static void expand_names(struct walk *w, const char *head, size_t head_bytes, const char *rest,
			 size_t rest_bytes)
{
	const char *open = memchr(rest, '[', rest_bytes), *close, *p;
	char name[NAME_BYTES];
	size_t plain = open ? (size_t)(open - rest) : rest_bytes;

	if (++w->n_steps > STEPS_MAX)
		w->end = true;
	if (w->end || head_bytes + plain >= sizeof(name))
		return;
	memcpy(name, head, head_bytes);
	memcpy(name + head_bytes, rest, plain);
	head_bytes += plain;
	name[head_bytes] = '\0';
	if (!open) {
		w->end = w->n == NODES_MAX || !w->visit(w->ctx, name, w->n);
		w->n += !w->end || w->n < NODES_MAX;
		return;
	}
	close = memchr(open, ']', rest_bytes - plain);
	if (!close)
		return;
	for (p = open + 1; p < close && !w->end;) {
		int64_t from, to;
		size_t width, ignored;
		char number[32];

		if (!take_number(&p, close, &from, &width))
			return;
		to = from;
		if (p < close && *p == '-') {
			p++;
			if (!take_number(&p, close, &to, &ignored))
				return;
		}
		for (; from <= to && !w->end; from++) {
			int n = snprintf(number, sizeof(number), "%0*lld", (int)width,
					 (long long)from);

			if (head_bytes + (size_t)n >= sizeof(name))
				return;
			memcpy(name + head_bytes, number, (size_t)n + 1);
			expand_names(w, name, head_bytes + (size_t)n, close + 1,
				     rest_bytes - (size_t)(close + 1 - rest));
		}
		if (p < close && *p != ',')
			return;
		p += p < close;
	}
}

size_t gs_job_each_node(const char *list, bool (*visit)(void *, const char *, size_t), void *ctx)
{
	struct walk w = {visit, ctx, 0, false};

	while (*list && !w.end) {
		size_t n = 0, depth = 0;

		for (; list[n] && (list[n] != ',' || depth); n++) {
			depth += list[n] == '[';
			depth -= list[n] == ']' && depth;
		}
		if (n)
			expand_names(&w, "", 0, list, n);
		list += n + (list[n] == ',');
	}
	return w.n;
}

struct search {
	const char *name;
	int64_t at;
};

static bool compare_name(void *ctx, const char *name, size_t at)
{
	struct search *s = ctx;

	if (strcmp(name, s->name) != 0)
		return true;
	s->at = (int64_t)at;
	return false;
}

int64_t gs_job_node_position(const char *list, const char *name)
{
	struct search s = {name, -1};

	gs_job_each_node(list, compare_name, &s);
	return s.at;
}

/* --- indices --- */

bool gs_job_indices(const char *text, size_t bytes, uint64_t *ret)
{
	const char *p = text, *end = text + bytes;
	uint64_t mask = 0;

	if (!bytes)
		return false;
	while (p < end) {
		int64_t from, to;
		size_t width;

		if (!take_number(&p, end, &from, &width))
			return false;
		to = from;
		if (p < end && *p == '-') {
			p++;
			if (!take_number(&p, end, &to, &width))
				return false;
		}
		for (; from <= to && from < GS_JOB_GPUS_MAX; from++)
			mask |= 1ull << from;
		if (p < end && *p != ',')
			return false;
		p += p < end;
	}
	*ret = mask;
	return true;
}

bool gs_job_gres(const char *text, size_t bytes, uint64_t *ret)
{
	static const char idx[] = "(IDX:";
	const char *p = text, *end = text + bytes;
	bool found = false;

	*ret = 0;
	while (p < end) {
		const char *e = p, *at, *close = NULL;
		unsigned depth = 0;
		uint64_t mask;

		for (; e < end && (*e != ',' || depth); e++) {
			depth += *e == '(';
			depth -= *e == ')' && depth;
		}
		at = memmem(p, (size_t)(e - p), idx, sizeof(idx) - 1);
		if (at)
			close = memchr(at, ')', (size_t)(e - at));
		if (close && (size_t)(e - p) > 4 && memcmp(p, "gpu", 3) == 0 &&
		    (p[3] == ':' || p[3] == '(') &&
		    gs_job_indices(at + sizeof(idx) - 1, (size_t)(close - at) - (sizeof(idx) - 1),
				   &mask)) {
			*ret |= mask;
			found = true;
		}
		p = e + (e < end);
	}
	return found;
}
