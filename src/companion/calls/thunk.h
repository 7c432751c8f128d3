/* Thunks: see thunks.S, which includes this for its numbers. */
#ifndef GS_COMPANION_CALLS_THUNK_H
#define GS_COMPANION_CALLS_THUNK_H

#define CALLS_THUNKS      2048 /* functions, each at each address where it is defined */
#define CALLS_THUNK_BYTES 16

#ifndef __ASSEMBLER__

#include <stdbool.h>
#include <stdint.h>

#include "model/companion/file.h"

struct calls_thunk {
	void *real;                          /* the function itself */
	const struct gs_companion_func *row; /* which one it is; lent for ever */
	int32_t n_words;                     /* of arguments on the stack, at most */
	bool is_alias; /* reached by another name, and may go on to the function by its own */
};

extern struct calls_thunk calls_thunk[CALLS_THUNKS];

/* What is to stand in place of this function's address; NULL: there are too many. Any thread. */
void *calls_thunk_of(const struct gs_companion_func *row, void *real, bool is_alias);

/* Is it one of ours? */
bool calls_is_thunk(const void *address);

#endif
#endif
