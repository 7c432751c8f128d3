#include "sources/sideband/pyfunc_set.h"

#include <stdlib.h>

#include "core/base/map.h"
#include "core/base/mem.h"
#include "model/trace/event.h"

struct given { /* a number that is in use */
	uint64_t code;
	uint32_t pid;  /* 0: free */
	uint32_t next; /* of the same process: index plus 1 */
};

struct ended {
	uint32_t pid, last;
	unsigned n_rounds;
};

struct gs_pyfunc_set {
	struct given given[GS_PYFUNC_MAX];
	struct gs_map of_pid; /* -> index of its last, plus 1 */
	struct ended ended[1024];
	size_t n_ended;
};

struct gs_pyfunc_set *gs_pyfunc_set_new(void)
{
	struct gs_pyfunc_set *s = calloc(1, sizeof(*s));

	if (s)
		s->of_pid = GS_MAP_INIT(GS_PYFUNC_MAX);
	return s;
}

void gs_pyfunc_set_free(struct gs_pyfunc_set **set)
{
	if (*set)
		gs_map_fini(&(*set)->of_pid);
	free(*set);
	*set = NULL;
}

void gs_pyfunc_set_add(struct gs_pyfunc_set *s, uint32_t number, uint32_t pid, uint64_t code)
{
	uint32_t i = number - GS_FUNC_MAX;
	uint64_t last = 0;

	if (number < GS_FUNC_MAX || i >= GS_PYFUNC_MAX || !pid || s->given[i].pid)
		return;
	(void)gs_map_get(&s->of_pid, pid, &last);
	s->given[i] = (struct given){code, pid, (uint32_t)last};
	/* Without room it is not given again: there are many. */
	(void)gs_map_put(&s->of_pid, pid, i + 1);
}

bool gs_pyfunc_set_has(const struct gs_pyfunc_set *s, uint32_t number, uint32_t pid)
{
	return s && number - GS_FUNC_MAX < GS_PYFUNC_MAX &&
	       s->given[number - GS_FUNC_MAX].pid == pid;
}

void gs_pyfunc_set_end(struct gs_pyfunc_set *s, uint32_t pid)
{
	uint64_t last;

	if (!gs_map_get(&s->of_pid, pid, &last) || s->n_ended == GS_ARRAY_LEN(s->ended))
		return;
	gs_map_del(&s->of_pid, pid);
	s->ended[s->n_ended++] = (struct ended){.pid = pid, .last = (uint32_t)last};
}

static void take_back(struct gs_pyfunc_set *s, const struct ended *e,
		      const struct gs_pyfunc_round *round)
{
	uint32_t at = e->last;

	while (at && at <= GS_PYFUNC_MAX) {
		struct given g = s->given[at - 1];

		s->given[at - 1] = (struct given){0};
		round->take_back(round->ctx, GS_FUNC_MAX + at - 1, e->pid, g.code);
		at = g.next;
	}
}

void gs_pyfunc_set_round(struct gs_pyfunc_set *s, const struct gs_pyfunc_round *round)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_ended; i++) {
		struct ended e = s->ended[i];

		if (++e.n_rounds < round->n_rounds || !round->is_gone(round->ctx, e.pid))
			s->ended[n++] = e;
		else
			take_back(s, &e, round);
	}
	s->n_ended = n;
}
