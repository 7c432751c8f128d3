/*
 * Which numbers of Python functions are in use, and by which process (model/trace/event.h,
 * GS_PYFUNC_MAX). The kernel side gives a number when it meets a function, and reports it; it may
 * give it again when its process has ended and nothing of it can come any more.
 */
#ifndef GS_SOURCES_SIDEBAND_PYFUNC_SET_H
#define GS_SOURCES_SIDEBAND_PYFUNC_SET_H

#include <stdbool.h>
#include <stdint.h>

struct gs_pyfunc_set;

/* NULL: no memory. */
struct gs_pyfunc_set *gs_pyfunc_set_new(void);
void gs_pyfunc_set_free(struct gs_pyfunc_set **set);

/* The number was given to the function whose code is at this address of the process. What is no
 * such number, or in use, changes nothing. */
void gs_pyfunc_set_add(struct gs_pyfunc_set *set, uint32_t number, uint32_t pid, uint64_t code);

/* The number is in use by this process. set may be NULL: none is. */
bool gs_pyfunc_set_has(const struct gs_pyfunc_set *set, uint32_t number, uint32_t pid);

/* The process has ended; another one of its id has numbers of its own. */
void gs_pyfunc_set_end(struct gs_pyfunc_set *set, uint32_t pid);

/* A round is over. Processes that had ended n_rounds ago, and which is_gone does not deny, lose
 * their numbers: take_back is called for each number, which is free from then on. ctx: of both. */
struct gs_pyfunc_round {
	unsigned n_rounds;
	bool (*is_gone)(void *ctx, uint32_t pid);
	void (*take_back)(void *ctx, uint32_t number, uint32_t pid, uint64_t code);
	void *ctx;
};

/* All callbacks come within this call. */
void gs_pyfunc_set_round(struct gs_pyfunc_set *set, const struct gs_pyfunc_round *round);

#endif
