/*
 * The sources of a flame graph. Samples and waits are added up by what they name (a thread, a function,
 * two stacks, a cause) and enter the tree at the end, when all stacks are known; calls enter it as the
 * outermost of them return.
 */
#include "pipeline/flamegraph/flame_int.h"

#include <errno.h>
#include <string.h>

#include "core/base/map.h"
#include "core/base/mem.h"
#include "model/trace/account.h"
#include "model/trace/func.h"

static const char *const by_names[GS_FLAME_BY_COUNT] = {"auto",  "samples", "time", "launches",
							"bytes", "memory",  "wall"};

const char *gs_flame_by_name(enum gs_flame_by by)
{
	return (unsigned)by < GS_FLAME_BY_COUNT ? by_names[by] : "unknown";
}

int gs_flame_by_parse(const char *name, enum gs_flame_by *ret_by)
{
	for (unsigned i = 0; i < GS_FLAME_BY_COUNT; i++) {
		if (strcmp(name, by_names[i]) == 0) {
			*ret_by = i;
			return 0;
		}
	}
	return -EINVAL;
}

void gs_flame_free(struct gs_flame **flame)
{
	struct gs_flame *f = *flame;

	if (!f)
		return;
	flame_forest_free(&f->forest);
	flame_tree_fini(&f->tree);
	free(f->samples);
	free(f->slots);
	free(f);
	*flame = NULL;
}

int gs_flame_new(const struct gs_dict *dict, enum gs_flame_by by, struct gs_flame **ret_flame)
{
	GS_CLEANUP(gs_flame_free) struct gs_flame *f = calloc(1, sizeof(*f));
	int r;

	if (!f)
		return -ENOMEM;
	f->by = by;
	r = flame_tree_init(&f->tree, dict);
	if (r == 0 && by != GS_FLAME_SAMPLES && by != GS_FLAME_WALL)
		r = flame_forest_new(&f->tree, by == GS_FLAME_AUTO ? GS_FLAME_TIME : by,
				     &f->forest);
	if (r == 0)
		*ret_flame = gs_take(f);
	return r;
}

static int grow_samples(struct gs_flame *f)
{
	uint32_t capacity = f->capacity ? 2 * f->capacity : 1024, mask = 2 * capacity - 1;
	struct sample *samples;
	uint32_t *slots;

	slots = calloc(2 * (size_t)capacity, sizeof(*slots));
	samples = slots ? realloc(f->samples, capacity * sizeof(*samples)) : NULL;
	if (!samples) {
		free(slots);
		return -ENOMEM;
	}
	free(f->slots);
	f->samples = samples;
	f->slots = slots;
	f->capacity = capacity;
	f->n_slots = mask + 1;
	for (uint32_t i = 0; i < f->n_samples; i++) {
		uint64_t h = gs_hash_bytes(&samples[i].key, sizeof(samples[i].key));

		while (slots[h & mask])
			h++;
		slots[h & mask] = i + 1;
	}
	return 0;
}

static int take_sample(struct gs_flame *f, const struct sample_key *key, uint64_t weight_ns)
{
	uint64_t h = gs_hash_bytes(key, sizeof(*key));
	uint32_t i;

	if (f->n_samples == f->capacity && f->capacity < GS_FLAME_MAX_NODES) {
		int r = grow_samples(f);

		if (r < 0)
			return r;
	}
	while ((i = f->slots[h & (f->n_slots - 1)]) != 0) {
		if (memcmp(&f->samples[i - 1].key, key, sizeof(*key)) == 0) {
			f->samples[i - 1].weight_ns += weight_ns;
			return 0;
		}
		h++;
	}
	if (f->n_samples == f->capacity) { /* too many different ones: the thread alone */
		if (key->scope || key->py_stack || key->native_stack) {
			struct sample_key plain = {.thread = key->thread, .wait = key->wait};

			f->samples_coarse_ns += weight_ns;
			return take_sample(f, &plain, weight_ns);
		}
		f->samples[0].weight_ns += weight_ns;
		return 0;
	}
	f->samples[f->n_samples] = (struct sample){*key, weight_ns};
	f->slots[h & (f->n_slots - 1)] = ++f->n_samples;
	return 0;
}

int gs_flame_record(struct gs_flame *f, const struct gs_record *r)
{
	bool wants_waits = f->by == GS_FLAME_AUTO || f->by == GS_FLAME_WALL;

	if (r->kind == GS_REC_CALL && f->forest)
		return flame_forest_call(f->forest, (const void *)r);
	if (r->kind == GS_REC_SAMPLE && (wants_waits || f->by == GS_FLAME_SAMPLES)) {
		const struct gs_rec_sample *s = (const void *)r;
		struct sample_key key = {.thread = s->thread,
					 .scope = s->scope,
					 .py_stack = s->py_stack,
					 .native_stack = s->native_stack};

		return take_sample(f, &key, s->period_ns);
	}
	if (r->kind == GS_REC_WAIT && wants_waits) {
		const struct gs_rec_wait *w = (const void *)r;
		struct sample_key key = {
			.thread = w->thread,
			.py_stack = w->py_stack,
			.wait = 1 + (w->cause < GS_WAIT_COUNT ? w->cause : GS_STATE_OTHER)};

		f->has_waits = true;
		return take_sample(f, &key, w->wait_ns);
	}
	return 0;
}

static int enter_sample(struct gs_flame *f, const struct sample *s)
{
	struct tree_at at = {0};
	int r = flame_tree_thread(&f->tree, s->key.thread, &at.node);

	if (r == -ENOBUFS)
		at.full = true;
	else if (r < 0)
		return r;
	r = flame_tree_push_python(&f->tree, &at, s->key.py_stack);
	if (r == 0 && s->key.scope)
		r = flame_tree_push_function(&f->tree, &at, s->key.scope);
	if (r == 0)
		r = flame_tree_push_native(&f->tree, &at, s->key.native_stack, 0);
	if (r == 0 && s->key.wait)
		r = flame_tree_push_wait(&f->tree, &at, s->key.wait - 1);
	if (r == 0)
		flame_tree_add(&f->tree, &at, s->weight_ns);
	return r;
}

/* Samples are what is asked for: calls are forgotten. */
static int enter_samples(struct gs_flame *f)
{
	const struct gs_dict *dict = f->tree.dict;
	int r;

	flame_tree_fini(&f->tree);
	r = flame_tree_init(&f->tree, dict);
	for (uint32_t i = 0; r == 0 && i < f->n_samples; i++)
		r = enter_sample(f, &f->samples[i]);
	f->tree.coarse += f->samples_coarse_ns;
	return r;
}

int gs_flame_finish(struct gs_flame *f)
{
	int r;

	if (f->by == GS_FLAME_AUTO)
		f->by = f->has_waits   ? GS_FLAME_WALL
			: f->n_samples ? GS_FLAME_SAMPLES
				       : GS_FLAME_TIME;
	r = f->by == GS_FLAME_SAMPLES || f->by == GS_FLAME_WALL ? enter_samples(f)
								: flame_forest_finish(f->forest);
	return r < 0 ? r : flame_tree_finish(&f->tree);
}

enum gs_flame_by gs_flame_shown(const struct gs_flame *f)
{
	return f->by;
}

const struct gs_flame_node *gs_flame_nodes(const struct gs_flame *f, uint32_t *ret_n)
{
	*ret_n = f->tree.n_nodes;
	return f->tree.nodes;
}

uint64_t gs_flame_coarse(const struct gs_flame *f)
{
	return f->tree.coarse;
}
