/*
 * A hash map from a 64-bit key to a 64-bit value (a number or an index, never an owned pointer),
 * open addressing, grown at 3/4 full up to a maximum number of entries.
 */
#ifndef GS_CORE_BASE_MAP_H
#define GS_CORE_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gs_map_slot { /* key and value are there when it is used */
	uint64_t key;
	uint64_t value;
	uint8_t state; /* 0 free, 1 used, 2 deleted */
};

struct gs_map {
	struct gs_map_slot *slots; /* owned */
	size_t n_slots;            /* a power of two, or 0 */
	size_t n_used;
	size_t n_filled; /* used and deleted ones */
	size_t max_used; /* entries; gs_map_put() refuses more */
};

#define GS_MAP_INIT(max) ((struct gs_map){.max_used = (max)})

/* Frees the slots, not what values stand for; the map is empty then and keeps its maximum. */
void gs_map_fini(struct gs_map *map);

/* True and *ret_value set when key is there; otherwise *ret_value is untouched. */
bool gs_map_get(const struct gs_map *map, uint64_t key, uint64_t *ret_value);

/* Insert or replace. 0, -ENOMEM or -ENOBUFS (the maximum). */
int gs_map_put(struct gs_map *map, uint64_t key, uint64_t value);

/* True when key was there. */
bool gs_map_del(struct gs_map *map, uint64_t key);

/* Visit every used slot; meanwhile the map must not change, but that the visited one may be deleted. */
#define gs_map_for_each(map, s)                                                                    \
	for (struct gs_map_slot *s = (map)->slots; s && s < (map)->slots + (map)->n_slots; s++)    \
		if (s->state == 1)

/* FNV-1a over bytes, for keys made of text. */
uint64_t gs_hash_bytes(const void *data, size_t bytes);

#endif
