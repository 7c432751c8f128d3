#include "core/base/map.h"

#include <errno.h>
#include <stdlib.h>

enum { SLOT_FREE, SLOT_USED, SLOT_DELETED };

/* The finaliser of splitmix64: every bit of the key reaches the low bits. */
static uint64_t mix_bits(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9ull;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

void gs_map_fini(struct gs_map *map)
{
	free(map->slots);
	*map = GS_MAP_INIT(map->max_used);
}

static struct gs_map_slot *find_slot(const struct gs_map *map, uint64_t key)
{
	size_t mask = map->n_slots - 1;

	if (!map->n_slots)
		return NULL;
	for (size_t i = mix_bits(key) & mask;; i = (i + 1) & mask) {
		struct gs_map_slot *s = &map->slots[i];

		if (s->state == SLOT_FREE)
			return NULL;
		if (s->state == SLOT_USED && s->key == key)
			return s;
	}
}

static int rehash_slots(struct gs_map *map, size_t n_slots)
{
	struct gs_map_slot *slots = calloc(n_slots, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	gs_map_for_each (map, s) {
		size_t i = mix_bits(s->key) & (n_slots - 1);

		while (slots[i].state)
			i = (i + 1) & (n_slots - 1);
		slots[i] = *s;
	}
	free(map->slots);
	map->slots = slots;
	map->n_slots = n_slots;
	map->n_filled = map->n_used;
	return 0;
}

bool gs_map_get(const struct gs_map *map, uint64_t key, uint64_t *ret_value)
{
	const struct gs_map_slot *s = find_slot(map, key);

	if (!s)
		return false;
	*ret_value = s->value;
	return true;
}

int gs_map_put(struct gs_map *map, uint64_t key, uint64_t value)
{
	struct gs_map_slot *s = find_slot(map, key);
	size_t i;
	int r;

	if (s) {
		s->value = value;
		return 0;
	}
	if (map->n_used >= map->max_used)
		return -ENOBUFS;
	if (map->n_filled + 1 > map->n_slots / 4 * 3) {
		/* Many deleted slots: the same size is enough, once they are swept out. */
		size_t n = map->n_slots ? map->n_slots : 16;

		if (map->n_used + 1 > n / 2)
			n *= 2;
		r = rehash_slots(map, n);
		if (r < 0)
			return r;
	}
	for (i = mix_bits(key) & (map->n_slots - 1); map->slots[i].state == SLOT_USED;)
		i = (i + 1) & (map->n_slots - 1);
	if (map->slots[i].state == SLOT_FREE)
		map->n_filled++;
	map->slots[i] = (struct gs_map_slot){.key = key, .value = value, .state = SLOT_USED};
	map->n_used++;
	return 0;
}

bool gs_map_del(struct gs_map *map, uint64_t key)
{
	struct gs_map_slot *s = find_slot(map, key);

	if (!s)
		return false;
	s->state = SLOT_DELETED;
	map->n_used--;
	return true;
}

uint64_t gs_hash_bytes(const void *data, size_t bytes)
{
	const uint8_t *p = data;
	uint64_t h = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < bytes; i++)
		h = (h ^ p[i]) * 0x100000001b3ull;
	return h;
}
