/* Which thunk stands for which function at which address. None is ever given back: pointers to it may lie anywhere
 * in the program. */
#include "companion/calls/thunk.h"

#include <stddef.h>

#include "companion/calls/calls_int.h"
#include "companion/ring/ring.h"

#define TABLE (CALLS_THUNKS * 2) /* a power of two */

extern const char calls_thunks[]; /* CALLS_THUNKS times CALLS_THUNK_BYTES of code */

struct calls_thunk calls_thunk[CALLS_THUNKS];
static uint32_t n_thunks;
static uint16_t table[TABLE]; /* hash of function and address -> number + 1 */
static struct companion_lock lock;

/* Where it is known how many there are: launches. Others take five at most, and structs by value of 128 bytes. */
static int32_t words_on_stack(const struct gs_func_desc *d)
{
	switch (d->post) {
	case GS_POST_LAUNCH_RT:
		return 2;
	case GS_POST_LAUNCH_DRV:
		return 5;
	case GS_POST_LAUNCH_EXC:
	case GS_POST_LAUNCH_EX:
		return 0;
	}
	return 18;
}

static uint32_t hash_of(const struct gs_companion_func *row, const void *real)
{
	return (uint32_t)((((uintptr_t)real >> 4) * 0x9e3779b97f4a7c15ull +
			   row->id * 0x85ebca6bull) >>
			  40) &
	       (TABLE - 1);
}

static void *address_of(uint32_t number)
{
	return (void *)(calls_thunks + (size_t)number * CALLS_THUNK_BYTES);
}

bool calls_is_thunk(const void *address)
{
	return (const char *)address >= calls_thunks &&
	       (const char *)address < calls_thunks + (size_t)CALLS_THUNKS * CALLS_THUNK_BYTES;
}

void *calls_thunk_of(const struct gs_companion_func *row, void *real, bool is_alias)
{
	uint32_t at = hash_of(row, real);
	void *found = NULL;

	if (!companion_lock_take(&lock, NULL))
		return NULL;
	for (; table[at]; at = (at + 1) & (TABLE - 1)) {
		const struct calls_thunk *t = &calls_thunk[table[at] - 1];

		if (t->row == row && t->real == real) {
			found = address_of(table[at] - 1u);
			break;
		}
	}
	if (!found && n_thunks < CALLS_THUNKS) {
		calls_thunk[n_thunks] = (struct calls_thunk){.real = real,
							     .row = row,
							     .n_words = words_on_stack(&row->desc),
							     .is_alias = is_alias};
		table[at] = (uint16_t)(n_thunks + 1);
		found = address_of(n_thunks++);
	}
	companion_lock_drop(&lock);
	return found;
}
