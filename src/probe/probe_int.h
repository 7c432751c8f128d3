/* Shared among the files of this room. */
#ifndef GS_PROBE_PROBE_INT_H
#define GS_PROBE_PROBE_INT_H

#include <bpf/libbpf.h>

#include "base/map.h"
#include "elf/elf.h"
#include "elf/library.h"
#include "elf/usdt.h"
#include "code/exit.h"
#include "probe/probe.h"
#include "code/site.h"
#include "watch/pyfunc_set.h"
#include "watch/watch.h"

/* --- features.c: what this kernel and user can --- */

struct features {
	bool session;              /* Linux 6.13: entry and return by one link */
	bool multi;                /* Linux 6.6: one link for many functions */
	bool task_storage;         /* Linux 5.11 */
	bool long_nop_is_emulated; /* Linux 6.16 */
	bool nop5_is_call;         /* Linux 6.18 turns five-byte nops under a probe into calls */
};

/* 0; -EPERM or -ENOTSUP with a text when nothing can be traced here. */
int features_detect(unsigned avoid, struct features *ret_features, struct gs_err *err);

/* --- kernel.c: programs and maps --- */

enum family {
	FAMILY_CUDA,
	FAMILY_NCCL,
	FAMILY_TORCH,
	FAMILY_SPAN,
	FAMILY_PYSPAN,
	FAMILY_PYCALL,
	FAMILY_USCOPE, /* described functions that may throw */
	FAMILY_UNWIND, /* the last of those that plan.c has places for */
	FAMILY_USER,
	N_FAMILIES
};

struct kernel_side {
	struct gs_cuda_bpf *cuda;     /* owned */
	struct gs_nccl_bpf *nccl;     /* owned; NULL when the kernel refused it */
	struct gs_task_bpf *task;     /* owned; NULL when the kernel refused it */
	struct gs_sample_bpf *sample; /* owned; NULL unless samples are asked for */
	struct bpf_link **timers;     /* owned; by processor, NULL where there is none */
	int n_timers;
	struct gs_pyspan_bpf *pyspan; /* owned; NULL when not asked for */
	struct gs_pycall_bpf *pycall; /* owned; NULL when not asked for */
	struct gs_torch_bpf *torch;   /* owned; NULL when operators are not asked for */
	struct gs_span_bpf *span;     /* owned; NULL when spans are not asked for */
	struct gs_uscope_bpf *uscope; /* owned; NULL when none is described, or it was refused */
	struct gs_unwind_bpf *unwind; /* owned; NULL when no layer needs it */
	struct gs_user_bpf *user;     /* owned; NULL when no probe was described */
	struct bpf_link *task_links[3];
	/* By family; those that the way of attaching does not use are NULL. Without session and
	 * leave: only entries are caught. */
	struct bpf_program *session[N_FAMILIES], *enter[N_FAMILIES], *leave[N_FAMILIES];
	/* borrowed from cuda */
	int procs_fd, py_procs_fd, cgroup_fd, free_threads_fd, free_cells_fd, cell_of_fd;
	struct ring_buffer *ring; /* owned */
	/* Shared with the kernel side. */
	struct gs_kernel_state *state;
	struct gs_thread *threads;
	struct gs_cell *cells;
	struct gs_modes *modes;
	bool *group_used; /* owned, by number; NULL: no function is ever taken off */
};

int kernel_load(struct kernel_side *k, const struct gs_probe_options *options,
		const struct gs_kernel_config *config, const struct features *features,
		ring_buffer_sample_fn on_event, void *ctx, struct gs_err *err);
void kernel_unload(struct kernel_side *k);

/* --- sample.c: the timer --- */

int sample_start(struct kernel_side *k, struct bpf_program *program, uint64_t period_ns,
		 struct gs_err *err);
void sample_stop(struct kernel_side *k);

/* The programs alone whose prices are asked for, for price.c, with maps of a few elements.
 * Negative errno: nothing is left. */
int kernel_load_alone(struct kernel_side *k, const struct gs_kernel_config *config,
		      const struct features *features, bool with_scopes, bool with_users);

/* --- link.c: one function at a place, in the kernel --- */

struct place { /* one probe */
	uint64_t file_off;
	uint64_t ref_ctr_off; /* of a static probe's counter; 0 none */
	uint64_t cookie;      /* but for the group; of described probes the row, else func and
			       * GS_COOKIE_* */
	uint16_t func;        /* gs_func id; 0 of FAMILY_UNWIND */
	uint8_t family;       /* enum family */
	bool has_return;      /* its return is caught too, in families that can */
	bool is_stepped;      /* single-stepped by the kernel */
};

/* Links that stand and fall together: one, or one for entries and one for returns. */
struct link_group {
	int fds[2]; /* owned */
	unsigned n_fds;
	uint8_t family;
	uint8_t turn;         /* GS_COOKIE_GROUP_SHIFT */
	uint16_t number;      /* 0: it cannot be replaced */
	struct place *places; /* owned; NULL unless functions may be taken off again */
	size_t n;
	/* regroup.c: fds[] are new, and old[] those that they replace */
	int old[2]; /* owned */
	unsigned n_old;
	uint8_t phase;
	uint64_t turned_ns;
};

struct links {                     /* of one file */
	struct link_group *groups; /* owned */
	size_t n;
};

/* Attach all n places of one file to the programs of a family. pid 0: every process. Places that
 * the kernel refuses are left out and told by status[i] (negative errno, else 0). Returns how many
 * were attached, or a negative errno when none could be for a common reason. */
int links_attach(struct links *links, const struct kernel_side *k, const struct features *features,
		 enum family family, const char *path, pid_t pid, const struct place *places,
		 size_t n, int *status);
void links_close(struct links *links);
void links_move(struct links *to, struct links *from);

/* The numbers of closed groups may be used again. */
void links_release_numbers(const struct links *links, const struct kernel_side *k);

/* Links for all places of the group, into fds. 0, or a negative errno and none. */
int group_attach(struct link_group *group, const struct kernel_side *k,
		 const struct features *features, const char *path, pid_t pid);

/* --- regroup.c: functions are taken off --- */

/* One step on the way of those of the links' functions that are to go (GS_MODE_OFF). True when
 * there are more to make. */
bool links_regroup(struct gs_probe *probe, struct links *links, const char *path, pid_t pid);

/* Do probes on the function count still? */
bool links_have(const struct links *links, uint16_t func);

/* --- plan.c: which functions of a file, and where in them --- */

struct plan {
	struct place *places; /* owned */
	size_t n, n_room;
	uint32_t n_moved, n_stepped;
	uint32_t layer; /* of all places, 0 when of several */
};

void plan_fini(struct plan *plan);

/* Which functions are asked for, by id. */
struct selection {
	bool wanted[GS_FUNC_FIXED];
	unsigned n;
	bool operators;      /* of PyTorch, chosen by gs_probe_options.op_set and .ops */
	uint16_t span_first; /* the first id of spans; 0 they are not asked for */
	bool unwind;         /* functions that may throw are probed */
	bool python_gc, python_gil;
	uint16_t
		py_func; /* calls of Python functions: the id that stands for all of them; 0 none */
	bool scopes;     /* any of these */
};

int selection_make(struct selection *s, const struct gs_probe_options *options, struct gs_err *err);

/* What a plan is made from. */
struct plan_context {
	const struct selection *selection;
	const struct gs_probe_options *options;
	const struct features *features;
	const char *path; /* of the file, as the process names it */
	struct gs_elf *elf;
	struct gs_map *callees; /* file offset of what is called -> enum gs_callee */
};

/* Why something of the file is not traced. */
void plan_tell(const struct plan_context *context, const char *function, const char *reason,
	       int status, unsigned layer);

/* The places of a static probe. 0 or -ENOMEM. */
int plan_add_probes(struct plan *plan, const struct gs_usdt_places *probe, enum family family,
		    uint64_t cookie, uint16_t func);

#define PLAN_NO_EXITS "where it returns cannot be told from its code"

/* Put a probe where it is cheap into a function; name is for messages. 0 also when the function
 * must not be probed (told to options->on_attach); -ENOMEM. */
int plan_add(struct plan *plan, const struct plan_context *context,
	     const struct gs_elf_symbol *symbol, const char *name, enum family family,
	     unsigned layer, uint16_t func);

/* The same for a function that may throw: probes on what it is left by, too, where no return probe
 * will be. */
int plan_add_scope(struct plan *plan, const struct plan_context *context,
		   const struct gs_elf_symbol *symbol, const char *name, enum family family,
		   unsigned layer, uint16_t func);

/* The same for the loop of an interpreter (gs_exit_around.is_loop); cookies of its ways out have
 * the exact distance of the stack pointer to that at the entry. What cannot be told from its code
 * is -EILSEQ or -E2BIG and not told, with the entry alone in the plan. */
int plan_add_loop(struct plan *plan, const struct plan_context *context,
		  const struct gs_elf_symbol *symbol, const char *name, enum family family,
		  unsigned layer, uint16_t func);

/* Fill plan (n 0: not a file of interest; *plan is the caller's to end). Functions that must not be
 * probed are told to options->on_attach. Negative errno: the file could not be read. */
int plan_file(struct plan *plan, const struct selection *selection,
	      const struct gs_probe_options *options, const struct features *features,
	      const struct gs_mapped_file *file, struct gs_err *err);

/* --- around.c: what is around a function, for gs_exits_x86_64() --- */

struct around {
	const struct plan_context *context;
	uint64_t file_off; /* of the function */
};

size_t around_read(void *around, int64_t offset_bytes, uint8_t *buf, size_t bytes);
enum gs_callee around_callee(void *around, int64_t offset_bytes);

/* --- torch.c: operators of PyTorch --- */

/* Checks op_set and ops. */
int torch_select(struct selection *s, const struct gs_probe_options *options, struct gs_err *err);

/* Add the chosen operators that the file defines; nothing when it defines none. */
int torch_plan(struct plan *plan, const struct plan_context *context, struct gs_err *err);

/* --- pyspan.c: what an interpreter does beside running code --- */

int pyspan_plan(struct plan *plan, const struct plan_context *context, struct gs_err *err);

/* --- pycall.c: calls of Python functions --- */

int pycall_plan(struct plan *plan, const struct plan_context *context, struct gs_err *err);

/* What the programs know from the start. */
int pycall_fill(struct gs_pycall_bpf *skeleton, const struct gs_probe_options *options,
		struct gs_err *err);

/* Their numbers. *ret_set stays NULL where they are not traced, which the others take. */
int pycalls_new(struct gs_probe *probe, struct gs_pyfunc_set **ret_set);
void pycalls_event(struct gs_pyfunc_set *set, const struct gs_event *event);
void pycalls_harvest(struct gs_probe *probe);

/* --- files.c: files with probes, and who uses them --- */

/* --- user.c: probes that the user described --- */

struct users; /* which files had which, and what their calls added up to */

/* *ret_users NULL: there are none. */
int users_new(struct gs_probe *probe, struct users **ret_users);
void users_free(struct users **users);

/* Is a function among them that may throw, and whose return is wanted? */
bool users_may_throw(const struct gs_user_set *set);

/* Attach what a file has of the described probes; links are added. How many were placed. */
unsigned users_attach(struct gs_probe *probe, struct links *links,
		      const struct gs_mapped_file *file, pid_t only_pid);

void users_attach_paths(struct gs_probe *probe); /* to files named by their path */
void users_harvest(struct gs_probe *probe, const struct gs_probe_handler *handler);
void users_tell_missing(struct gs_probe *probe);

struct file_table; /* by identity (and pid, where links are made by process) */

struct gs_probe {
	struct gs_probe_options options; /* texts and lists copied */
	pid_t *pids;                     /* owned copy */
	char **globs, **ops;             /* owned copies */
	char *comm, *cgroup;
	bool by_process; /* links are made for one process each: others pay nothing */
	bool cgroup_v1;  /* members are followed one by one */
	struct features features;
	struct selection selection;
	struct kernel_side kernel;
	struct file_table *files;
	struct gs_map descent;                  /* processes chosen by id, and their children */
	struct users *users;                    /* NULL: none */
	struct gs_pyfunc_set *pycalls;          /* NULL: none; the consumer's */
	struct gs_watch *watch;                 /* NULL: not available */
	uint32_t n_cells;                       /* at most, of the kernel side */
	struct gs_cell *before;                 /* owned: cells as handed over last */
	const struct gs_probe_handler *handler; /* during gs_probe_poll() */
	int n_polled;
	_Atomic bool regroup;       /* a function is to go, or on its way */
	bool off_told[GS_FUNC_MAX]; /* it is gone */
	char engine[160];
};

/* The id whose probes and mode a function has: all Python functions share those of one. */
static inline uint16_t placed_as(const struct gs_probe *probe, uint16_t id)
{
	return id >= GS_FUNC_MAX ? probe->selection.py_func : id;
}

struct file_table *files_new(void);
/* Hands the link descriptors of all files over into *ret_links. */
void files_free(struct file_table **files, struct links *ret_links);

/* A process has this file mapped: attach when it is of interest and new. ret_new: probes were
 * placed now. */
int files_use(struct gs_probe *probe, pid_t pid, const struct gs_mapped_file *file, bool *ret_new);
const char *files_reason_of(int status);
void files_tell_failure(struct gs_probe *probe, const char *path, const char *function,
			const char *reason, int status, uint32_t layer);
void files_process_gone(struct gs_probe *probe, pid_t pid);
void files_sweep(struct gs_probe *probe);

/* Functions in GS_MODE_OFF are not attached any more. */
bool files_is_off(const struct gs_probe *probe, uint16_t func);

/* What a hit at a placed probe is made of (on_function). row: of described probes, else NULL. */
void files_tell_price(struct gs_probe *probe, const struct place *place,
		      const struct gs_user_row *row);

/* Take off the probes of functions that are to go, a step at a time. */
void files_regroup(struct gs_probe *probe);
unsigned files_count(const struct file_table *files, unsigned *ret_n_probes);

/* --- target.c: which processes --- */

int target_config(struct gs_probe *probe, struct gs_kernel_config *config, struct gs_err *err);
/* After loading: what only a map can hold. */
int target_fill_maps(struct gs_probe *probe, struct gs_err *err);
bool target_may_match(const struct gs_probe *probe, pid_t pid);
void target_follow_cgroup_v1(struct gs_probe *probe);

#endif
