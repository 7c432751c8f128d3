#include "core/base/vec.h"

#include <stdint.h>
#include <string.h>

#define FIRST_N 16 /* elements of an array that begins; small ones are small things' */

/* items_at is a pointer to a pointer of some type: read and written as bytes, so that no type is
 * taken for another. */
static bool set_capacity(void *items_at, size_t item_bytes, size_t capacity)
{
	void *items, *more;
	size_t bytes;

	if (__builtin_mul_overflow(capacity, item_bytes, &bytes) || bytes > PTRDIFF_MAX)
		return false;
	memcpy(&items, items_at, sizeof(items));
	more = realloc(items, bytes);
	if (more)
		memcpy(items_at, &more, sizeof(more));
	return more != NULL;
}

bool gs_vec_grow(void *items_at, size_t item_bytes, size_t *capacity, size_t wanted,
		 size_t capacity_max)
{
	size_t n = *capacity ? *capacity : FIRST_N / 2;

	if (wanted > capacity_max)
		return false;
	do
		n = n > capacity_max / 2 ? capacity_max : n * 2;
	while (n < wanted);
	if (!set_capacity(items_at, item_bytes, n))
		return false;
	*capacity = n;
	return true;
}

bool gs_vec_grow_next(void *items_at, size_t item_bytes, size_t n)
{
	/* 4, 8, 16 ...: full only at these. */
	if (n && (n < 4 || (n & (n - 1))))
		return true;
	if (n > SIZE_MAX / 2)
		return false;
	return set_capacity(items_at, item_bytes, n ? n * 2 : 4);
}

void gs_vec_clear(void *items, size_t item_bytes, size_t from, size_t to)
{
	if (to > from)
		memset((char *)items + from * item_bytes, 0, (to - from) * item_bytes);
}
