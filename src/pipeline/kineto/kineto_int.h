/* What the files of the room share. Inside the room only. */
#ifndef GS_PIPELINE_KINETO_KINETO_INT_H
#define GS_PIPELINE_KINETO_KINETO_INT_H

#include "core/base/buf.h"
#include "core/base/map.h"
#include "pipeline/kineto/kineto.h"

#define KINETO_FUNCTIONS_MAX (GS_FUNCTION_ID_MAX - 1)
#define KINETO_THREADS_MAX   4096
#define KINETO_NAMES_MAX     65536 /* of kernels */

struct kineto_event {
	uint64_t start_ns, dur_ns; /* as the file has them */
	uint32_t name;             /* of a call: id of a function; of GPU work: of a string */
	uint32_t thread;           /* id; of GPU work 0 */
	uint32_t scope;            /* id of the operator around a call of CUDA; 0 */
	uint32_t stream;
	uint32_t
		correlation; /* of a call of CUDA and of what it asked for: the same; 0 not known */
	uint32_t below;      /* of an open call: index + 1 of the open call around it; 0: none */
	uint64_t bytes;      /* of copies and fills */
	uint16_t device;
	uint8_t work; /* enum gs_gpu_work_kind; 0: a call */
	uint8_t depth;
};

struct kineto {
	struct kineto_event *events; /* owned */
	size_t n_events, cap_events;
	uint8_t layers[GS_FUNCTION_ID_MAX]; /* by function id */
	uint32_t n_functions, n_strings, n_threads, n_processes;
	/* By hashes of what they are: ids. */
	struct gs_map functions, strings, threads, processes;
	struct gs_map open;  /* by thread: index + 1 of its innermost open call; 0: none */
	struct gs_map comms; /* string id by process and thread; thread 0: the process */
	struct gs_buf names; /* records of names, in the order of their ids */
	/* Kineto of 2023 on: what its times are counted from, in ns of the time of day; 0: the file has none. */
	uint64_t base_ns;
	uint64_t window_from_ns, window_to_ns; /* when it looked, as the file has it; 0 not known */
	struct gs_kineto_stats stats;
};

/* The id of a text, function, thread or process, announced when it is new. 0: no room, counted as left out. */
uint32_t kineto_find_string(struct kineto *k, const char *text);
uint32_t kineto_find_function(struct kineto *k, unsigned layer, unsigned func_class,
			      const char *name);
uint32_t kineto_find_thread(struct kineto *k, uint32_t pid, uint32_t tid);

/* What a thread is called; tid 0: a process. May come before or after its events. */
void kineto_take_name(struct kineto *k, uint32_t pid, uint32_t tid, const char *name);

/* A file's events and names. *ret is to be closed after an error, too. As gs_kineto_read(). */
int kineto_open(FILE *file, struct kineto **ret, struct gs_err *err);
void kineto_close(struct kineto **kineto);

/* Events of the file into k, with times as they are. 0, -EBADMSG or -ENOMEM. */
int kineto_parse(struct kineto *k, FILE *file, struct gs_err *err);
/* The same for eACGM's text. 0 or -ENOMEM. */
int kineto_parse_log(struct kineto *k, FILE *file);

/* The enum gs_func_class of the function of this name in this layer. */
unsigned kineto_class_of(unsigned layer, const char *name);

/* Appends the event. Returns 1, 0 (no room, counted as left out) or -ENOMEM. */
int kineto_add_event(struct kineto *k, const struct kineto_event *e);

/* A call is open from its begin to its end. An end closes the innermost open call of this function
 * (0: of any function) on the thread; an end without a begin is counted. */
int kineto_begin_call(struct kineto *k, const struct kineto_event *e); /* 0 or -ENOMEM */
void kineto_end_call(struct kineto *k, uint32_t thread, uint32_t function, uint64_t end_ns);
/* At the end of the file: drops and counts the calls without an end. */
void kineto_drop_open_calls(struct kineto *k);

#endif
