/*
 * What processes report from inside of themselves (sources/companion), made into the same raw events and cells as those
 * of probes, and which of the two doors a process's calls are seen by.
 *
 * A process is seen either from inside or by probes: of one that has a file, calls of the wanted functions that probes
 * report are left out (gs_inside_covers), and a library of CUDA or NCCL gets no probes as long as only such processes
 * use it (gs_inside_attaches).
 *
 * Calls of different threads come by different rings: they are held back until all that ended before has come, so that
 * they are handed over in the order of their ends, with births and ends of threads between them.
 *
 * Of PyTorch's operators the same holds for libtorch_cpu.so, and calls that come by any way get the operator that made
 * them: the innermost one that was open in the thread (ops.h).
 *
 * The consumer thread polls and stops; the control thread asks gs_inside_attaches(), _next_late() and _exec(). The caller
 * serialises. All but new and free do nothing with NULL, where nothing is seen from inside, unless they say otherwise.
 */
#ifndef GS_PIPELINE_INSIDE_INSIDE_H
#define GS_PIPELINE_INSIDE_INSIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "model/trace/account.h"
#include "pipeline/ingest/ingest.h"
#include "sources/companion/companion.h"

/* For a process that was started with the library, to report. */
#define GS_INSIDE_WAIT_NS 3000000000ull

struct gs_inside;

/* files: borrowed, outlives it. wanted: functions by id, GS_FUNC_FIXED of them. 0 or -ENOMEM. */
int gs_inside_new(struct gs_companion_files *files, const bool *wanted,
		  struct gs_inside **ret_inside);
void gs_inside_free(struct gs_inside **inside);

/* Where events go; borrowed. Not with NULL. */
void gs_inside_set_feed(struct gs_inside *inside, struct gs_ingest *feed);

/* Operators of PyTorch are seen from inside, too: their names get ids of this set; borrowed. Before the first reading, and
 * not with NULL. */
void gs_inside_set_ops(struct gs_inside *inside, struct gs_func_set *funcs);
/* Python functions are to be seen from inside, too; not with a taker. attaches: interpreters get probes nevertheless, which
 * are of something else. Before the first reading, and not with NULL. */
void gs_inside_set_python(struct gs_inside *inside, bool attaches);

/* For who needs each call by itself. */
struct gs_inside_taker {
	void (*event)(void *ctx, const struct gs_event *event); /* in their order */
	void (*missing)(void *ctx,
			uint64_t n); /* calls that were lost, or are known by sums alone */
	void *ctx;                   /* borrowed */
};

/* Where events go in place of a feed; copied. Before the first reading, and not with NULL. */
void gs_inside_set_taker(struct gs_inside *inside, const struct gs_inside_taker *taker);

/* Hand over what came; harvest: with what only grows. True: there is much, come back soon. */
bool gs_inside_poll(struct gs_inside *inside, bool harvest);
void gs_inside_stop(struct gs_inside *inside);

/* A process or thread began or ended, or runs another program: handed over between the calls before and after it. Not
 * with NULL. */
void gs_inside_task(struct gs_inside *inside, const struct gs_event_task *event);

/* A call that a probe has reported. True: it is handed over later, in its order, with the operator that made it, as operators are
 * seen from inside. */
bool gs_inside_call(struct gs_inside *inside, const struct gs_event_call *call);

/* Put the time in calls that are seen from inside into a thread's account, which the kernel side keeps. */
void gs_inside_account(struct gs_inside *inside, struct gs_account_reading *reading);

/* Layers (bits 1 << enum gs_layer) of which calls came from inside. */
uint32_t gs_inside_layers(const struct gs_inside *inside);

/* Has NCCL reported a communicator in any process? */
bool gs_inside_saw_nccl(const struct gs_inside *inside);

/* Is a call of this function, also one of Python, that a probe reports one that is seen from inside? */
bool gs_inside_covers(struct gs_inside *inside, uint32_t pid, unsigned func);

/* Are this process's calls of CUDA and NCCL seen from inside? */
bool gs_inside_sees(struct gs_inside *inside, uint32_t pid);

/* A running process is asked to have its Python functions seen from inside: until it is known whether they are, its interpreter
 * gets no probes. Then whether they are: no file of its is believed when not. */
void gs_inside_expect_python(struct gs_inside *inside, uint32_t pid);
bool gs_inside_sees_python(struct gs_inside *inside, uint32_t pid);
void gs_inside_give_python_up(struct gs_inside *inside, uint32_t pid);

/* The process runs another program since then: whether it is seen from inside is to be found out again. */
void gs_inside_exec(struct gs_inside *inside, uint32_t pid, uint64_t mono_ns);

/* Is this file of a process (pid 0: of none yet) to get probes? 1 yes, 0 no: a library of CUDA, NCCL or PyTorch, or an
 * interpreter, in a process that is seen from inside; -EAGAIN: its process has just begun, ask again. */
int gs_inside_attaches(struct gs_inside *inside, uint32_t pid, const char *path);

struct gs_inside_late {
	const char *what; /* is not seen from inside: static text */
	uint64_t gap_ns;  /* since it was loaded */
};

/* A process of those that were to be asked about again, and are not seen from inside: 0 none. */
uint32_t gs_inside_next_late(struct gs_inside *inside, struct gs_inside_late *ret_late);

#endif
