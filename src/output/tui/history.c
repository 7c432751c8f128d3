#include "output/tui/history.h"
#include "core/base/vec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void tui_history_init(struct tui_history *h)
{
	*h = (struct tui_history){.by_key = GS_MAP_INIT(TUI_HISTORY_MAX)};
}

void tui_history_fini(struct tui_history *h)
{
	for (size_t i = 0; i < h->n_series; i++)
		free(h->series[i]);
	free(h->series);
	gs_map_fini(&h->by_key);
	tui_history_init(h);
}

void tui_history_next(struct tui_history *h)
{
	h->round++;
	for (size_t i = 0; i < h->n_series;) {
		struct tui_series *s = h->series[i];

		if (h->round - s->last_round <= TUI_HISTORY_LEN) {
			i++;
			continue;
		}
		gs_map_del(&h->by_key, s->key);
		free(s);
		h->series[i] = h->series[--h->n_series];
		if (i < h->n_series)
			gs_map_put(&h->by_key, h->series[i]->key, i);
	}
}

static struct tui_series *add_series(struct tui_history *h, uint64_t key)
{
	struct tui_series *s;

	if (!gs_vec_reserve(&h->series, &h->room, h->n_series + 1))
		return NULL;
	s = calloc(1, sizeof(*s));
	if (!s || gs_map_put(&h->by_key, key, h->n_series) < 0) {
		free(s);
		return NULL;
	}
	s->key = key;
	s->first_round = h->round;
	s->last_round = h->round - 1;
	h->series[h->n_series++] = s;
	return s;
}

struct tui_series *tui_history_put(struct tui_history *h, uint64_t key,
				   const float value[TUI_HISTORY_SETS])
{
	struct tui_series *s;
	uint64_t at;

	s = gs_map_get(&h->by_key, key, &at) ? h->series[at] : add_series(h, key);
	if (!s)
		return NULL;
	while (s->last_round < h->round) {
		s->last_round++;
		for (unsigned i = 0; i < TUI_HISTORY_SETS; i++)
			s->value[i][s->last_round % TUI_HISTORY_LEN] = NAN;
	}
	for (unsigned i = 0; i < TUI_HISTORY_SETS; i++)
		s->value[i][h->round % TUI_HISTORY_LEN] = value[i];
	return s;
}

const struct tui_series *tui_history_get(const struct tui_history *h, uint64_t key)
{
	uint64_t at;

	return gs_map_get(&h->by_key, key, &at) ? h->series[at] : NULL;
}

void tui_history_read(const struct tui_history *h, const struct tui_series *s, unsigned set,
		      float *ret, int n)
{
	for (int i = 0; i < n; i++) {
		uint64_t back = (uint64_t)(n - 1 - i);

		ret[i] = NAN;
		if (s && back < TUI_HISTORY_LEN && h->round >= back &&
		    h->round - back >= s->first_round && h->round - back <= s->last_round)
			ret[i] = s->value[set][(h->round - back) % TUI_HISTORY_LEN];
	}
}
