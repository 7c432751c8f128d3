/*
 * Arrays that grow. The owner keeps them as it likes: a pointer, a count and a capacity among its own
 * members, of any unsigned type; these macros make room and check every multiplication, and nothing
 * else. Elements are moved as bytes: keep no pointer to one over a growth. What was there is
 * as it was when there is no memory. An array is freed by free().
 *
 *     struct list { struct item *items; size_t n, capacity; };
 *
 *     if (!gs_vec_reserve(&l->items, &l->capacity, l->n + 1))
 *             return -ENOMEM;
 *     l->items[l->n++] = (struct item){...};
 *
 * Limits are the caller's: each of these arrays has one, checked before or given by what fills it.
 */
#ifndef GS_CORE_BASE_VEC_H
#define GS_CORE_BASE_VEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

/* Room for wanted elements, at least doubled when it grows. False: no memory. */
#define gs_vec_reserve(items, capacity, wanted)                                                    \
	({                                                                                         \
		size_t vec_capacity = *(capacity), vec_wanted = (wanted);                          \
		bool vec_fits = vec_wanted <= vec_capacity ||                                      \
				gs_vec_grow((items), sizeof(**(items)), &vec_capacity, vec_wanted, \
					    (typeof(*(capacity)))-1);                              \
		*(capacity) = (typeof(*(capacity)))vec_capacity;                                   \
		vec_fits;                                                                          \
	})

/* For a table by number: *n, which is its capacity too, becomes larger than index; new elements are
 * zero. False: no memory. */
#define gs_vec_reach(items, n, index)                                                              \
	({                                                                                         \
		size_t vec_old = *(n), vec_index = (index);                                        \
		bool vec_reached = vec_index < (typeof(*(n)))-1 &&                                 \
				   gs_vec_reserve((items), (n), vec_index + 1);                    \
		gs_vec_clear(*(items), sizeof(**(items)), vec_old, *(n));                          \
		vec_reached;                                                                       \
	})

/* Room for element n of an array without a capacity that grows by this alone, one by one: it has
 * room for the next power of two (four at least). False: no memory. */
#define gs_vec_reserve_next(items, n) gs_vec_grow_next((items), sizeof(**(items)), (n))

/* The macros' work: items_at points to the array's pointer. capacity_max: what the owner's type of
 * capacity can say. */
bool gs_vec_grow(void *items_at, size_t item_bytes, size_t *capacity, size_t wanted,
		 size_t capacity_max);
bool gs_vec_grow_next(void *items_at, size_t item_bytes, size_t n);
void gs_vec_clear(void *items, size_t item_bytes, size_t from, size_t to);

#endif
