/*
 * Calls of Python functions as processes report them (model/companion/python.h): numbers of a process become functions of
 * the run. Any byte of what comes may be wrong: each is checked, and only what can be true goes on.
 */
#ifndef GS_PIPELINE_INSIDE_PYTHON_H
#define GS_PIPELINE_INSIDE_PYTHON_H

#include <stdbool.h>

#include "core/base/map.h"
#include "model/companion/python.h"
#include "pipeline/ingest/ingest.h"
#include "sources/companion/companion.h"

#define GS_INSIDE_PYTHON_SAID  64u
#define GS_INSIDE_PYTHON_ENDED 4096u

struct gs_inside_python {
	struct gs_map number_of;  /* process and its number -> id of the function in events */
	struct gs_map numbers_of; /* process -> its last number */
	struct gs_map
		refused; /* processes whose functions are not seen from inside -> since when */
	uint64_t said[GS_INSIDE_PYTHON_SAID]; /* hashes of what was said */
	unsigned n_said;
	struct gs_inside_python_ended { /* processes, in the order of their ends */
		uint32_t pid;
		uint64_t time_ns;
	} ended[GS_INSIDE_PYTHON_ENDED];
	uint32_t n_ended, n_swept; /* so far; place: modulo GS_INSIDE_PYTHON_ENDED */
};

/* Nothing is known yet; fini gives the memory back. */
void gs_inside_python_init(struct gs_inside_python *python);
void gs_inside_python_fini(struct gs_inside_python *python);

/* A number's function. */
void gs_inside_python_name(struct gs_inside_python *python, struct gs_ingest *feed, uint32_t pid,
			   uint32_t number, const char *file, const char *name, uint32_t line);

/* The id of a number's function; 0: there is none. */
uint16_t gs_inside_python_function(struct gs_inside_python *python, uint32_t pid, uint32_t number);

/* A call as an event but for its times, which the caller fills. False: it is malformed. */
bool gs_inside_python_call(struct gs_inside_python *python, const struct gs_companion_thread *from,
			   const struct gs_companion_python_call *call,
			   struct gs_event_call *ret_event);

/* What calls add up to. False: it is malformed. */
bool gs_inside_python_sum(struct gs_inside_python *python, struct gs_ingest *feed,
			  const struct gs_companion_thread *from,
			  const struct gs_companion_python_sum *sum);

/* One that is open; start_ns: monotonic. False: it is malformed. */
bool gs_inside_python_open(struct gs_inside_python *python, struct gs_ingest *feed,
			   const struct gs_companion_thread *from,
			   const struct gs_companion_python_frame *open, unsigned depth,
			   uint64_t start_ns);

/* What a process cannot do, and why: put among the libraries once for each text. False: it is malformed. */
bool gs_inside_python_state(struct gs_inside_python *python, struct gs_ingest *feed, uint32_t pid,
			    const struct gs_companion_python_state *state);

/* Did the process say that its functions are not seen? */
bool gs_inside_python_refused(const struct gs_inside_python *python, uint32_t pid);

/* The process runs another program since then. */
void gs_inside_python_exec(struct gs_inside_python *python, uint32_t pid, uint64_t mono_ns);

/* The process has ended at that time: its numbers are forgotten some time after all that it wrote has been read. */
void gs_inside_python_end(struct gs_inside_python *python, uint32_t pid, uint64_t mono_ns);
void gs_inside_python_sweep(struct gs_inside_python *python, uint64_t now_ns);

#endif
