/*
 * Probes on library calls: finds the files, chooses where to stop, attaches by the cheapest way
 * that this kernel has, and hands out what the kernel side saw.
 *
 * Two threads may share a probe: a control thread, which attaches (gs_uprobe_attach_*, _follow,
 * _watch_*, _rescan), and a consumer, which reads (gs_uprobe_poll, _harvest, _stop). new and free
 * belong to neither: nothing else may run then. What the control thread reads of others' files it
 * reads under its guard (core/base/foreign.h), which also ends it.
 *
 * Kernel-side life: programs, maps and links live as long as the descriptors in struct gs_uprobe;
 * nothing is pinned. When the process is killed the kernel removes every probe by itself.
 */
#ifndef GS_SOURCES_UPROBE_UPROBE_H
#define GS_SOURCES_UPROBE_UPROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/err.h"
#include "sources/elf/library.h"
#include "model/trace/attach.h"
#include "model/trace/func.h"
#include "model/trace/func_set.h"
#include "model/trace/kernel_side.h"
#include "model/trace/python.h"
#include "model/trace/cost.h"
#include "model/trace/user_set.h"
#include "sources/attach_plan/attach_plan.h"

struct gs_kernel_types;
struct gs_reader;
struct gs_uprobe;

/* Features of the kernel not to be used although they are there: for comparison and tests. */
enum gs_disabled_feature {
	GS_DISABLED_SESSION = 1,
	GS_DISABLED_MULTI = 2,
	GS_DISABLED_TASK_STORAGE = 4,
	GS_DISABLED_MOVED_SITES = 8,    /* not the kernel's: always probe the first byte */
	GS_DISABLED_RETURN_PROBES = 16, /* on functions of CUDA and NCCL */
	GS_DISABLED_ACCOUNT = 32,       /* the wall-clock account of threads */
};

struct gs_uprobe_options {
	size_t size;         /* of this struct */
	bool events;         /* whole events; false: aggregate in the kernel */
	bool marks;          /* where calls are added up: send marks, by which steps are found */
	uint64_t min_dur_ns; /* events only: shorter calls are aggregated instead */
	uint32_t ring_bytes; /* a power of two of at least 64 KiB; 0: 16 MiB */
	/* The kernel's, when the caller has read them already (sources/kernel_types); borrowed while programs are
	 * loaded. NULL: they are read. */
	struct gs_kernel_types *types;
	unsigned disabled_features; /* enum gs_disabled_feature, ored */

	const pid_t *pids; /* followed processes; more by gs_uprobe_follow() */
	size_t n_pids;
	bool follow;        /* their children too, of pids also those that run already */
	bool all;           /* every process of the machine */
	int64_t uid;        /* processes of this user; -1 any */
	const char *comm;   /* processes of this name; NULL any */
	const char *cgroup; /* processes below this folder of a cgroup hierarchy; NULL any */

	/* Calls of Python functions (3.8 to 3.10); which: any of the patterns, none: all. Layouts
	 * of these versions, from GS_PYCALL_FIRST on (sources/unwind/python.h). Copied. */
	bool python_calls;
	struct gs_py_glob py_globs[GS_PY_GLOB_MAX];
	size_t n_py_globs;
	struct gs_py_proc py_layouts[GS_PYCALL_N];

	bool python_gc, python_gil; /* collections and waits for the lock of interpreters */
	unsigned py_stack_at;       /* enum gs_stack_at, ored: when Python stacks are taken; events
				     * only, but for GS_AT_SAMPLE */
	unsigned native_stack_at;   /* the same of native stacks */
	bool maps;                  /* on_map is called: stacks or names of kernels are wanted */
	uint32_t stack_bytes;       /* of a native stack that are copied: up to 32 KiB */
	uint64_t slow_scope_ns;     /* GS_AT_SLOW_SCOPE */
	uint64_t sample_period_ns;  /* GS_AT_SAMPLE */

	uint32_t layers;          /* bit 1 << enum gs_layer; 0: CUDA and NCCL */
	const char *const *globs; /* functions by name; none: the default set */
	size_t n_globs;
	struct gs_user_set *users; /* borrowed, may be NULL: probes that the user described; rows
				    * are added */

	/* Without events: work for GPUs is added up by stream, and calls that may say what of it is
	 * done are sent: gpu_run is called, and event. By function: enum gs_gpu_queue_role and what is
	 * or-ed to it. NULL: nothing of it. */
	uint8_t (*gpu_role)(const struct gs_func *func);

	bool modes;                /* gs_uprobe_set_mode() will be used */
	enum gs_mode default_mode; /* of all functions at the start, with modes */

	/* Reads files for us; borrowed, used by the control thread's functions. NULL: they are read
	 * by this process. */
	struct gs_reader *reader;

	/* Layers whose functions are found during the run: these get their ids here. Needed with
	 * GS_LAYER_TORCH, else NULL; outlives the probe. */
	struct gs_func_set *funcs;
	enum gs_op_set op_set;  /* operators, when none are chosen by name */
	const char *const *ops; /* operators by name: globs */
	size_t n_ops;

	/* Called by the control thread's functions for each file or function that was attached to
	 * or could not be; what is lent is good during the call. */
	void (*on_attach)(void *ctx, const struct gs_attach *attach);
	/* A library was mapped gap_ns before its probes were in place; pid 0: by a process that had
	 * ended by then. May be NULL. */
	void (*on_late)(void *ctx, const char *path, pid_t pid, uint64_t gap_ns);
	/* True: this file of a process (0: of none yet) is not to be attached to now. May be NULL. */
	bool (*leaves_out)(void *ctx, pid_t pid, const char *path);
	/* A process that may be a followed one was born, or runs a new program; may be NULL. */
	void (*on_process)(void *ctx, pid_t pid);
	/* A process runs another program since then; may be NULL. Before what that maps is asked about. */
	void (*on_exec)(void *ctx, pid_t pid, uint64_t mono_ns);
	/* With maps: a process has mapped code, or (NULL) runs a new program and has
	 * lost what it had mapped. */
	void (*on_map)(void *ctx, pid_t pid, uint64_t mono_ns, const struct gs_mapping *mapping);
	/* With py_stack_at: a process that may be a followed one may have got an interpreter: it
	 * runs a new program, was forked or has mapped a libpython. */
	void (*on_python)(void *ctx, pid_t pid);
	/* A probe of a function was placed; may be NULL. */
	void (*on_function)(void *ctx, unsigned func, const struct gs_hit *hit);
	/* With modes: the probes of a function in GS_MODE_OFF are off in all files that let them
	 * go, and in one at least: what was called until now is counted, later calls there are
	 * not. */
	void (*on_off)(void *ctx, unsigned func);
	void *ctx;
};

/* Calls that were added up, or only counted. Fields as in struct gs_overhead_hits. */
struct gs_hits {
	uint32_t func;
	uint64_t traced, counted, stepped, stepped_exits;
};

/* What the consumer gets; everything lent is good during the call. */
struct gs_uprobe_handler {
	/* One of the ring, in its order; to be checked. */
	void (*event)(void *ctx, const struct gs_event *event);
	/* A cell as it was handed over last (all zero the first time), and as it is. */
	void (*cell)(void *ctx, const struct gs_thread *thread, const struct gs_cell *before,
		     const struct gs_cell *now);
	/* A call that has not returned when tracing ends, or its thread, or it is peeked at; depth: of the
	 * thread, from 0. */
	void (*open_call)(void *ctx, const struct gs_thread *thread, const struct gs_frame *frame,
			  unsigned depth, uint64_t now_mono_ns);
	/* What a thread did since the last gs_uprobe_glance(); may be NULL. Calls by how they were
	 * traced, and single-stepped probes that they passed; time on processors. */
	void (*hits)(void *ctx, const struct gs_thread *thread, const struct gs_hits *hits);
	void (*cpu)(void *ctx, const struct gs_thread *thread, uint64_t cpu_ns);
	/* What the calls of a user's probe in one thread have grown by. */
	void (*user_cell)(void *ctx, const struct gs_user_sum *sum);
	/* What a process has moved to or from a peer, or when it called MPI, since it was handed
	 * over last (model/trace/mpi.h); may be NULL. */
	void (*mpi)(void *ctx, const struct gs_mpi_row *before, const struct gs_mpi_row *now);
	void (*open_scope)(void *ctx, const struct gs_thread *thread, unsigned depth,
			   uint64_t now_mono_ns); /* thread->scope[depth] */
	/* With gpu_role: calls have queued work, ahead of the event of any call that orders it; and
	 * what there is at a drain. Needed then. */
	void (*gpu_run)(void *ctx, const struct gs_gpu_queue_run *run);
	/* The account of a thread so far, not a difference; may be NULL. Reported at its end and at
	 * the end of tracing, and now and then before. */
	void (*account)(void *ctx, const struct gs_account_reading *reading);
	void *ctx;
};

/* -EPERM: a capability lacks; -ENOTSUP: this kernel cannot; -ENOENT: nothing chosen by the globs
 * and layers; each with a text that says what to do. */
int gs_uprobe_new(const struct gs_uprobe_options *options, struct gs_uprobe **ret_probe,
		  struct gs_err *err);

/* Removes every probe. Where the kernel needs long for that (single links, 0.1 s each), a child
 * process does it in the background, so that the caller does not wait. */
void gs_uprobe_free(struct gs_uprobe **probe);

/* "session links, task storage, 16 MiB ring": what is in use. Lent. */
const char *gs_uprobe_attach_mode(const struct gs_uprobe *probe);

/* The id whose mode all Python functions have (gs_uprobe_set_mode()); 0: they are not traced. */
unsigned gs_uprobe_python_id(const struct gs_uprobe *probe);

/* Has a process of the selection been seen? For -u, --comm and --cgroup, whose processes may come
 * later. One that takes a chosen name after its start (prctl) is seen with its next library only.
 */
bool gs_uprobe_saw_target(const struct gs_uprobe *probe);

/* How many files have probes now, and how many probes. */
unsigned gs_uprobe_n_files(const struct gs_uprobe *probe);
unsigned gs_uprobe_n_probes(const struct gs_uprobe *probe);

/* --- control thread --- */

/* Follow one more process. 0 or the error of bpf(2). */
int gs_uprobe_follow(struct gs_uprobe *probe, pid_t pid);

/* A process runs this interpreter: its Python stacks can be read from now on. NULL: it runs none.
 * 0 or the error of bpf(2). */
int gs_uprobe_python(struct gs_uprobe *probe, pid_t pid, const struct gs_py_proc *python);

/* Attach to what a process has mapped. -ESRCH: no such process. */
int gs_uprobe_attach_process(struct gs_uprobe *probe, pid_t pid);

/* Attach to the files that a command may load, before it starts. */
int gs_uprobe_attach_candidates(struct gs_uprobe *probe, const char *command,
				char *const environment[]);

/* Attach to what the chosen ones of all running processes have mapped: the first files of each
 * owner at once, the rest in turns during gs_uprobe_watch_poll(). */
int gs_uprobe_attach_running(struct gs_uprobe *probe);

/* Readable when processes have mapped files; call gs_uprobe_watch_poll() then. -1: not available
 * here, call it from time to time: it looks at all followed processes instead. */
int gs_uprobe_watch_fd(const struct gs_uprobe *probe);
void gs_uprobe_watch_poll(struct gs_uprobe *probe);

/* The last time, when tracing is over: what was mapped until now is noted for stacks, also when files
 * wait for their turn, which does not come any more. The guard's deadline ends it; what is left then is
 * counted. */
void gs_uprobe_watch_end(struct gs_uprobe *probe);

/* Files that wait for their turn: when there are any, call gs_uprobe_watch_poll() again soon. After
 * gs_uprobe_watch_end() also those whose notices were not looked at any more. */
size_t gs_uprobe_n_waiting(const struct gs_uprobe *probe);

/* Report (on_attach) each described probe that no file has had so far. To be called at the end. */
void gs_uprobe_report_missing(struct gs_uprobe *probe);

/* To be called some times a second: looks for libraries whose notices were dropped, follows members
 * that joined a cgroup of an old (v1) hierarchy, and takes probes off files that no process has
 * used for half a minute. */
void gs_uprobe_rescan(struct gs_uprobe *probe);

/* A step on the way of functions in GS_MODE_OFF to having no probes; some ms each. To be called
 * often where gs_uprobe_set_mode() is. */
void gs_uprobe_regroup(struct gs_uprobe *probe);

/* The last time, when tracing is over: functions whose probes have begun to go are reported (on_off), for
 * some of their calls may not have been counted. */
void gs_uprobe_regroup_end(struct gs_uprobe *probe);

/* --- consumer --- */

/* Hand over all events in the ring; how many there were. */
int gs_uprobe_poll(struct gs_uprobe *probe, const struct gs_uprobe_handler *handler);

/* Hand over hits, time on processors and the cells of described probes (hits, cpu, user_cell): less
 * than a harvest, which does this too. */
void gs_uprobe_glance(struct gs_uprobe *probe, const struct gs_uprobe_handler *handler);

/* Hand over what cells have grown by, and take back the slots of threads that ended. */
void gs_uprobe_drain(struct gs_uprobe *probe, const struct gs_uprobe_handler *handler);

/* Hand over (open_call) the calls that have not returned for min_age_ns or more, and go on tracing: what they
 * say is whole, since nothing has changed in them since. */
void gs_uprobe_peek_open(struct gs_uprobe *probe, const struct gs_uprobe_handler *handler,
			 uint64_t min_age_ns);

/* The run is over: no further call is accounted for; the rest of the ring, the cells and the calls
 * that are still open are handed over. */
void gs_uprobe_stop(struct gs_uprobe *probe, const struct gs_uprobe_handler *handler);

/* Trace the function so from its next call on; any thread. Needs gs_uprobe_options.modes. With
 * GS_MODE_OFF its calls are counted until gs_uprobe_regroup() has taken its probes off, for good;
 * with GS_MODE_COUNT those where it is left, if it has any. */
void gs_uprobe_set_mode(struct gs_uprobe *probe, unsigned func, enum gs_mode mode);

/* Of the traced thread that has waited longest for the GPU and still lives: how long, and its wall time, so
 * far. False: none has waited. Between two drains, by the thread that drains. */
bool gs_uprobe_gpu_wait(const struct gs_uprobe *probe, uint64_t *ret_wait_ns,
			uint64_t *ret_wall_ns);

/* Total of a loss so far, as the kernel side counted it, or (GS_LOSS_MAPS) the watch. */
uint64_t gs_uprobe_lost(const struct gs_uprobe *probe, unsigned layer, enum gs_loss cause);

struct gs_uprobe_losses { /* what was reported of them; all 0 at first */
	uint64_t reported[GS_LAYER_COUNT][GS_LOSS_COUNT];
};

/* Calls fn for each loss that has grown since it was reported, with how much. */
void gs_uprobe_report_losses(const struct gs_uprobe *probe, struct gs_uprobe_losses *losses,
			     void (*fn)(void *ctx, unsigned layer, enum gs_loss cause,
					uint64_t count),
			     void *ctx);

#endif
