/*
 * Reads what traced processes report from inside of themselves: the files of a run's folder
 * (model/companion/file.h). The folder is made here, for the run alone and for its user alone; the files in it
 * are made by the traced processes.
 *
 * A file is foreign: it is opened without following links, has to be a regular one of the
 * folder's owner that no other can write, and is read by pread() into memory of ours: it may change, shrink or
 * hold anything. One reading costs at most what its rings hold. One thread.
 */
#ifndef GS_SOURCES_COMPANION_COMPANION_H
#define GS_SOURCES_COMPANION_COMPANION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/err.h"
#include "model/companion/file.h"
#include "model/trace/python.h"

/* --- ticks to ns: pairs of both clocks, noted while records come --- */

#define GS_COMPANION_PAIRS 256u

struct gs_companion_ticks {
	struct { /* the same moment by both clocks, rising */
		uint64_t ticks, mono_ns;
	} pairs[GS_COMPANION_PAIRS];
	unsigned n;    /* pairs in use */
	unsigned last; /* the one before which the last answer lay */
};

/* Can the processor's counter be a clock here: the same on all processors, at one rate? */
bool gs_companion_tsc_is_clock(void);

/* ns for each of its ticks times 2^32, measured in some ms: about. */
uint64_t gs_companion_ns_per_tick(void);

/* Note a pair, read now; some ms after the last one at least, else it is left out. */
void gs_companion_ticks_note(struct gs_companion_ticks *ticks);
void gs_companion_ticks_add(struct gs_companion_ticks *ticks, uint64_t tsc, uint64_t mono_ns);

/* Monotonic ns; 0 before two pairs are known. */
uint64_t gs_companion_ticks_ns(struct gs_companion_ticks *ticks, uint64_t tsc);

/* --- a process's file --- */

struct gs_companion_file;

struct gs_companion_thread {
	uint32_t pid, tid; /* as gpuscope numbers them */
	uint32_t clock;    /* enum gs_companion_clock of its times */
	uint32_t doors;    /* that its file is of: bits 1 << enum gs_companion_door */
	uint64_t file;     /* number of its file, from 1; of no other one */
};

struct gs_companion_python_frame; /* model/companion/python.h */
struct gs_companion_python_row;

/* Calls of a Python function in a slot, added up: at the last time (all zero at first), and now. */
struct gs_companion_python_sum {
	const struct gs_companion_python_row *before, *now;
	const uint32_t *hist_before, *hist; /* GS_HIST_N_BUCKETS each */
};

struct gs_companion_handler { /* may be NULL but record; what is lent is good during the call */
	void (*record)(void *ctx, const struct gs_companion_thread *from,
		       const struct gs_companion_record *record);
	/* Calls of a function that were part of the one around them: how many more. */
	void (*inner)(void *ctx, const struct gs_companion_thread *from, unsigned func, uint32_t n);
	/* Calls that were added up: what there was at the last time (all zero at first), and is now. */
	void (*sum)(void *ctx, const struct gs_companion_thread *from,
		    const struct gs_companion_sum *before, const struct gs_companion_sum *now);
	/* A call that is open now: the depth'th of its thread. */
	void (*open)(void *ctx, const struct gs_companion_thread *from, const struct gs_frame *call,
		     unsigned depth);
	/* Operators that are open now, the innermost last, before the records that came; is_end: that will not end. */
	void (*ops)(void *ctx, const struct gs_companion_thread *from,
		    const struct gs_companion_scope *scopes, unsigned n, bool is_end);
	/* Functions of Python: the name of a number, before anything else has it; sums; one that is open now, the
	 * depth'th of its thread. */
	void (*python_name)(void *ctx, uint32_t pid, uint32_t number, const char *file,
			    const char *name, uint32_t line);
	void (*python_sum)(void *ctx, const struct gs_companion_thread *from,
			   const struct gs_companion_python_sum *sum);
	void (*python_open)(void *ctx, const struct gs_companion_thread *from,
			    const struct gs_companion_python_frame *open, unsigned depth);
	void (*lost)(void *ctx, const struct gs_companion_thread *from,
		     enum gs_companion_loss cause, unsigned layer, uint64_t n);
	/* Records of threads that found no slot, and bytes that hold no records. */
	void (*no_slot)(void *ctx, uint32_t pid, uint64_t n);
	void (*damaged)(void *ctx, uint32_t pid, uint64_t bytes);
	void *ctx;
};

/* Monotonic ns of a time in a record of that thread; 0 before two pairs are known. */
uint64_t gs_companion_thread_ns(struct gs_companion_ticks *ticks,
				const struct gs_companion_thread *from, uint64_t time);

/* Takes the descriptor, which is open for reading and writing, in any case. pid: whose file it is.
 * -EBADMSG, -EPROTONOSUPPORT: of gs_companion_head_check(); or the error of a system call. */
int gs_companion_file_open(int *fd, uint32_t pid, struct gs_companion_file **ret_file);
void gs_companion_file_free(struct gs_companion_file **file);

/* Hand over what was written since the last time. harvest: also what only grows (inner, lost). How many records
 * there were. full: a ring was more than a quarter full: it is to be read again soon. */
size_t gs_companion_file_read(struct gs_companion_file *file,
			      const struct gs_companion_handler *handler, bool harvest,
			      bool *ret_full);

/* Of the door of operators, now; GS_COMPANION_WAITS of a file that is not its. */
enum gs_companion_state gs_companion_file_state(const struct gs_companion_file *file);

/* Hand over the calls that are open now. */
void gs_companion_file_open_calls(struct gs_companion_file *file,
				  const struct gs_companion_handler *handler);

/* Were more slots taken than some, at the last reading? Threads that come and go soon take all. */
bool gs_companion_file_is_crowded(const struct gs_companion_file *file);

/* Give slots of threads that have ended back to others, what they added up last handed over. To be called after a
 * reading that was a harvest. */
void gs_companion_file_reclaim(struct gs_companion_file *file,
			       const struct gs_companion_handler *handler);

/* Has the process given it back? */
bool gs_companion_file_has_left(const struct gs_companion_file *file);

/* The process records nothing more. */
void gs_companion_file_stop(struct gs_companion_file *file);

/* --- all files of a run --- */

struct gs_companion_files;

/* What is taken of a process's file. */
enum gs_companion_share {
	GS_COMPANION_LEAVE,    /* nothing: it is left alone */
	GS_COMPANION_FROM_NOW, /* what it writes from now on */
	GS_COMPANION_WHOLE,
};

struct gs_companion_files_options {
	size_t size;        /* of this struct */
	const char *parent; /* folder for that of the run; NULL: /dev/shm */
	/* No folder is made: files are in those that users share for this in parent (GS_COMPANION_SHARED_NAME), and only of
	 * processes of the folder's user. Their names stay until the process ends. NULL: the run's folder. */
	enum gs_companion_share (*takes)(void *ctx, uint32_t pid);
	void *ctx; /* of it */
};

/* Folders of users in /dev/shm, with the user's number after it. */
#define GS_COMPANION_SHARED_NAME "gpuscope-inside-"

/* Makes the folder. 0, -ENOMEM, or the error of mkdir(2) and its like with err. */
int gs_companion_files_new(const struct gs_companion_files_options *options,
			   struct gs_companion_files **ret_files, struct gs_err *err);

/* Removes the folder too. Processes that still run write on into files without a name. */
void gs_companion_files_free(struct gs_companion_files **files);

/* Say in a folder what processes are to report there: doors (bits 1 << enum gs_companion_door), and calls of which
 * functions (by id, GS_FUNC_FIXED of them). ring_bytes: of a thread, GS_COMPANION_RING_BYTES is usual. Before they
 * begin. A negative errno with err. */
int gs_companion_plan_write(const char *folder, uint32_t doors, const bool *wanted,
			    uint32_t ring_bytes, struct gs_err *err);

/* What is asked of the door to Python, beside that plan. events: single calls are wanted; globs: n_globs patterns that
 * choose functions, 0 for all. A negative errno with err. */
int gs_companion_plan_write_python(const char *folder, bool events, const struct gs_py_glob *globs,
				   size_t n_globs, struct gs_err *err);

/* --- a process that runs already --- */

struct gs_companion_late;

/* Make a folder for the file of this process where it reaches it, by its own root: in a file system of memory, to be its user's.
 * follows: forked children may put files there, too. Owned by files. -EPERM: it runs with rights of another user than the
 * one who started it, or is of another user's; -EXDEV: its number is not ours; these and others with a text for people, of
 * the process: "has ...". */
int gs_companion_late_open(struct gs_companion_files *files, pid_t pid, bool follows,
			   struct gs_companion_late **ret_late, struct gs_err *err);

/* As the process names it; lent. */
const char *gs_companion_late_folder(const struct gs_companion_late *late);

/* Put a file there, for its user alone. Before it is given. A negative errno. */
int gs_companion_late_put(struct gs_companion_late *late, const char *name, const void *data,
			  size_t bytes);

/* Where it can load this library from, a copy where it cannot have this one. A negative errno, with err as above. */
int gs_companion_late_put_library(struct gs_companion_late *late, const char *path, char *out,
				  size_t out_bytes, struct gs_err *err);

/* The plans of the run, and from here on the folder is the user's, and files are looked for in it. A negative errno. */
int gs_companion_late_give(struct gs_companion_files *files, struct gs_companion_late *late);

/* What the process says in its folder of why it has no file: a line, its control characters replaced. False: nothing. */
bool gs_companion_late_why(const struct gs_companion_late *late, char *out, size_t bytes);

/* Has the process no file in use any more, as it has left it, ended, or had none? */
bool gs_companion_files_has_left(const struct gs_companion_files *files, pid_t pid);

/* Its path, for the environment of traced programs; lent. */
const char *gs_companion_files_folder(const struct gs_companion_files *files);

/* Look for new files, and hand over what came since the last time, as gs_companion_file_read(). */
void gs_companion_files_poll(struct gs_companion_files *files,
			     const struct gs_companion_handler *handler, bool harvest,
			     bool *ret_full);

/* Look for new files. */
void gs_companion_files_scan(struct gs_companion_files *files);

/* When the newest file of this process was made that has this door, of those that have been found; 0: none was. Of
 * calls, operators and Python. */
uint64_t gs_companion_files_since(const struct gs_companion_files *files, uint32_t pid,
				  enum gs_companion_door door);

/* Whether its operators are seen from inside. False: the process has no file of that door, as far as is known. */
bool gs_companion_files_state(const struct gs_companion_files *files, uint32_t pid,
			      enum gs_companion_state *ret_state);

/* Which of these there were in any process: bits 1 << enum gs_companion_state. */
uint32_t gs_companion_files_states(const struct gs_companion_files *files);

/* The process runs another program since then: a file that it had before says nothing of that. */
void gs_companion_files_forget(struct gs_companion_files *files, uint32_t pid, uint64_t mono_ns);

/* The last reading: nothing more is recorded, the rest and the open calls are handed over. */
void gs_companion_files_stop(struct gs_companion_files *files,
			     const struct gs_companion_handler *handler);

/* Files that are open now: of processes that run, or have just ended. */
unsigned gs_companion_files_open(const struct gs_companion_files *files);

/* Files that could not be read, and the reason of the first; 0 none. */
unsigned gs_companion_files_refused(const struct gs_companion_files *files, int *ret_reason);

#endif
