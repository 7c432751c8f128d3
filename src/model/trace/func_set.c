#include "model/trace/func_set.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "core/base/map.h"
#include "core/base/mem.h"

struct gs_func_set {
	struct gs_func *items[GS_FUNC_MAX - GS_FUNC_FIXED]; /* owned, with their names; those
							     * that are reserved have none */
	unsigned n;                                         /* published with release */
	unsigned reserved, n_reserved;                      /* the first id, how many; 0 none */
	struct gs_map by_hash;                              /* of layer and name -> index */
	pthread_mutex_t lock;                               /* of who adds */
};

struct gs_func_set *gs_func_set_new(void)
{
	struct gs_func_set *s = calloc(1, sizeof(*s));

	if (s) {
		s->by_hash = GS_MAP_INIT(GS_FUNC_MAX);
		pthread_mutex_init(&s->lock, NULL);
	}
	return s;
}

void gs_func_set_free(struct gs_func_set **ref)
{
	struct gs_func_set *s = *ref;

	if (!s)
		return;
	for (unsigned i = 0; i < s->n; i++)
		free(s->items[i]);
	gs_map_fini(&s->by_hash);
	pthread_mutex_destroy(&s->lock);
	free(s);
	*ref = NULL;
}

static struct gs_func *func_new(unsigned layer, unsigned func_class, const char *name, unsigned id)
{
	size_t bytes = strlen(name) + 1;
	struct gs_func *f = calloc(1, sizeof(*f) + bytes);

	if (!f)
		return NULL;
	memcpy(f + 1, name, bytes);
	f->name = (const char *)(f + 1);
	f->id = (uint16_t)id;
	f->desc = (struct gs_func_desc){.layer = (uint8_t)layer,
					.op = (uint8_t)func_class,
					.v_bytes = GS_V_NONE,
					.v_bytes2 = GS_V_NONE,
					.v_stream = GS_V_NONE,
					.v_aux = GS_V_NONE};
	memset(f->desc.v_arg, GS_V_NONE, sizeof(f->desc.v_arg));
	return f;
}

static int add_func(struct gs_func_set *s, unsigned layer, unsigned func_class, const char *name,
		    uint16_t *ret_id)
{
	uint64_t key = gs_hash_bytes(name, strlen(name)) ^ (uint64_t)layer << 56, i;
	struct gs_func *f;
	int r;

	if (gs_map_get(&s->by_hash, key, &i)) {
		*ret_id = s->items[i]->id;
		return 0;
	}
	if (s->n == GS_ARRAY_LEN(s->items))
		return -ENOBUFS;
	f = func_new(layer, func_class, name, GS_FUNC_FIXED + s->n);
	if (!f)
		return -ENOMEM;
	r = gs_map_put(&s->by_hash, key, s->n);
	if (r < 0) {
		free(f);
		return r;
	}
	s->items[s->n] = f;
	__atomic_store_n(&s->n, s->n + 1, __ATOMIC_RELEASE);
	*ret_id = f->id;
	return 0;
}

int gs_func_set_add(struct gs_func_set *s, unsigned layer, unsigned func_class, const char *name,
		    uint16_t *ret_id)
{
	int r;

	pthread_mutex_lock(&s->lock);
	r = add_func(s, layer, func_class, name, ret_id);
	pthread_mutex_unlock(&s->lock);
	return r;
}

const struct gs_func *gs_func_set_get(const struct gs_func_set *s, unsigned id)
{
	if (id < GS_FUNC_FIXED)
		return gs_func_by_id(id);
	if (!s || id - GS_FUNC_FIXED >= __atomic_load_n(&s->n, __ATOMIC_ACQUIRE))
		return NULL;
	return __atomic_load_n(&s->items[id - GS_FUNC_FIXED], __ATOMIC_ACQUIRE);
}

int gs_func_set_reserve(struct gs_func_set *s, unsigned layer, unsigned func_class, unsigned n,
			const char *first_name, uint16_t *ret_first)
{
	struct gs_func *f;

	if (s->n_reserved || n == 0 || s->n + n > GS_ARRAY_LEN(s->items))
		return -ENOBUFS;
	f = func_new(layer, func_class, first_name, GS_FUNC_FIXED + s->n);
	if (!f)
		return -ENOMEM;
	s->items[s->n] = f;
	s->reserved = GS_FUNC_FIXED + s->n;
	s->n_reserved = n;
	__atomic_store_n(&s->n, s->n + n, __ATOMIC_RELEASE);
	*ret_first = f->id;
	return 0;
}

int gs_func_set_name(struct gs_func_set *s, unsigned id, const char *name)
{
	const struct gs_func *first;
	struct gs_func *f;

	if (!s->n_reserved || id <= s->reserved || id >= s->reserved + s->n_reserved ||
	    s->items[id - GS_FUNC_FIXED])
		return -EINVAL;
	first = s->items[s->reserved - GS_FUNC_FIXED];
	f = func_new(first->desc.layer, first->desc.op, name, id);
	if (!f)
		return -ENOMEM;
	__atomic_store_n(&s->items[id - GS_FUNC_FIXED], f, __ATOMIC_RELEASE);
	return 0;
}

unsigned gs_func_set_end(const struct gs_func_set *s)
{
	return GS_FUNC_FIXED + __atomic_load_n(&s->n, __ATOMIC_ACQUIRE);
}
