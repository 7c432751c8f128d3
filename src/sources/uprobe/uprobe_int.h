/* Shared among the files of this room. */
#ifndef GS_SOURCES_UPROBE_UPROBE_INT_H
#define GS_SOURCES_UPROBE_UPROBE_INT_H

#include <limits.h>

#include <bpf/libbpf.h>

#include "core/base/map.h"
#include "core/base/window.h"
#include "sources/x86/site.h"
#include "sources/elf/elf.h"
#include "sources/elf/library.h"
#include "sources/uprobe/uprobe.h"
#include "sources/sideband/pyfunc_set.h"
#include "sources/sideband/sideband.h"

/* --- selftest.c: what probes do to functions here --- */

struct selftest {
	bool done;         /* else nothing below is known */
	bool push_is_safe; /* the usual site: a function does what it did, in forked children too */
	bool nop5_is_safe; /* so does one that is probed at a five-byte nop */
	bool return_is_kept; /* return probes leave return addresses as they are */
};

struct selftest uprobe_selftest_get(void); /* made once */

/* Waits for its child, which ends by itself. */
void uprobe_selftest_reap(void);

#define ACCOUNT_LINKS       6
#define UPROBE_LAUNCHED_MAX 64 /* processes that launch work, of which start-up is known */

/* --- features.c: what this kernel and user can --- */

struct features {
	bool session;      /* Linux 6.13: entry and return by one link */
	bool multi;        /* Linux 6.6: one link for many functions */
	bool task_storage; /* Linux 5.11 */
	struct gs_x86_site_rules sites;
	bool return_is_kept; /* unwinders do not stop at return probes */
};

/* 0; -EPERM or -ENOTSUP with a text when nothing can be traced here. */
int uprobe_features_detect(unsigned disabled_features, struct features *ret_features,
			   struct gs_err *err);

/* --- kernel.c: programs and maps --- */

/* Objects of programs: those of families, by family, and */
enum {
	SIDE_TASK = GS_N_FAMILIES, /* processes begin and end */
	SIDE_SAMPLE,
	N_SIDES
};

struct uprobe_kernel_side {
	struct bpf_object *objects[N_SIDES]; /* owned; NULL: not asked for, or refused */
	struct bpf_link **timers;            /* owned; by processor, NULL where there is none */
	int n_timers;
	struct bpf_link *task_links[3];
	struct gs_account_bpf *account;                /* owned; NULL: threads have no account */
	struct bpf_link *account_links[ACCOUNT_LINKS]; /* owned */
	struct gs_account *accounts; /* shared with the kernel side; NULL likewise */
	/* By family; those that the way of attaching does not use are NULL. Without session and
	 * leave: only entries are caught. */
	struct bpf_program *session[GS_N_FAMILIES], *enter[GS_N_FAMILIES], *leave[GS_N_FAMILIES];
	/* borrowed from CUDA's object */
	int procs_fd, py_procs_fd, cgroup_fd, free_threads_fd, free_cells_fd, cell_of_fd;
	struct ring_buffer *ring; /* owned */
	/* Shared with the kernel side. */
	struct gs_kernel_state *state;
	struct gs_thread *threads; /* to be reached by uprobe_reach_threads() */
	struct gs_cell *cells;     /* by uprobe_reach_cells() */
	struct gs_window *thread_window, *cell_window, *mpi_window; /* owned: of these */
	struct gs_modes *modes;
	struct gs_mpi_row *mpi_rows;                /* by mpi_window; NULL: none */
	struct gs_window *gpu_window;               /* owned; NULL: work for GPUs is not added up */
	struct gs_gpu_queue_process *gpu_processes; /* by it */
	int free_gpu_fd;                            /* borrowed */
	bool *group_used;              /* owned, by number; NULL: no function is ever taken off */
	struct gs_kernel_types *types; /* while objects are loaded, NULL otherwise; owned, */
	bool borrows_types;            /* but for these */
};

/* --- kernel.c --- */

/* One more than the last thread, or cell, that the kernel side has handed out so far. */
unsigned uprobe_reach_threads(const struct uprobe_kernel_side *k);
/* May that place be touched? It may have been handed out since they were counted. */
bool uprobe_thread_is_mapped(const struct uprobe_kernel_side *k, uint32_t slot);
unsigned uprobe_reach_cells(const struct uprobe_kernel_side *k);

int uprobe_kernel_load(struct uprobe_kernel_side *k, const struct gs_uprobe_options *options,
		       const struct gs_kernel_config *config, const struct features *features,
		       struct gs_err *err);
void uprobe_kernel_loaded(struct uprobe_kernel_side *k); /* no more objects are loaded */
/* The ring and the counters, after that. Negative errno. */
int uprobe_kernel_map_all(struct uprobe_kernel_side *k, ring_buffer_sample_fn event, void *ctx);
void uprobe_kernel_unload(struct uprobe_kernel_side *k);

/* One of the maps that the object has, by its name. */
struct bpf_map *uprobe_kernel_map(const struct uprobe_kernel_side *k, unsigned side,
				  const char *name);

/* Hands the maps that all families share over to one more object, before it is loaded. */
int uprobe_kernel_share_maps(struct uprobe_kernel_side *k, struct bpf_object *object,
			     const struct features *f, const struct gs_kernel_config *config,
			     uint32_t ring_bytes);

/* --- sample.c: the timer --- */

int uprobe_sample_start(struct uprobe_kernel_side *k, struct bpf_program *program,
			uint64_t period_ns, struct gs_err *err);
void uprobe_sample_stop(struct uprobe_kernel_side *k);

/* For cost.c: its programs alone, with maps of a few elements. Negative errno: nothing is left. */
int uprobe_kernel_load_alone(struct uprobe_kernel_side *k, const struct gs_kernel_config *config,
			     const struct features *features, struct gs_kernel_types *types,
			     bool with_scopes, bool with_users);

/* --- link.c: places, in the kernel --- */

/* Links that stand and fall together: one, or one for entries and one for returns. */
struct uprobe_link_group {
	int fds[2]; /* owned */
	unsigned n_fds;
	uint8_t family;
	uint8_t turn;    /* GS_COOKIE_GROUP_SHIFT */
	uint16_t number; /* 0: it cannot be replaced */
	struct gs_attach_plan_place
		*places; /* owned; NULL unless functions may be taken off again */
	size_t n;
	/* regroup.c: fds[] are new, and old[] those that they replace */
	int old[2]; /* owned */
	unsigned n_old;
	uint8_t phase;
	uint64_t turned_ns;
};

struct links {                            /* of one file */
	struct uprobe_link_group *groups; /* owned */
	size_t n;
	unsigned n_failed; /* links that the kernel refused while these were made */
};

/* Attach all n places of one file to the programs of a family. pid 0: every process. Places that
 * the kernel refuses are left out and have a status[i] (negative errno, else 0). Returns how many
 * were attached, or a negative errno when none could be for a common reason. */
int uprobe_links_attach(struct links *links, const struct uprobe_kernel_side *k,
			const struct features *features, enum gs_family family, const char *path,
			pid_t pid, const struct gs_attach_plan_place *places, size_t n,
			int *status);
void uprobe_links_close(struct links *links);
void uprobe_links_move(struct links *to, struct links *from);

/* The same for many files: the kernel waits until no thread is in a probe (50 ms) once for all. */
void uprobe_links_close_many(struct links *links);

/* The numbers of closed groups may be used again. */
void uprobe_links_release_numbers(const struct links *links, const struct uprobe_kernel_side *k);

/* Links for all places of the group, into fds. 0, or a negative errno and none. */
int uprobe_attach_group(struct uprobe_link_group *group, const struct uprobe_kernel_side *k,
			const struct features *features, const char *path, pid_t pid);

/* Of perf events; -EOPNOTSUPP: there is none. */
int uprobe_event_type(void);

/* --- cost.c --- */

/* Where code of ours is, and in which file: the program, or a library that we are part of. 0 or -ENOENT. */
int uprobe_own_place(const void *code, char ret_path[PATH_MAX], uint64_t *ret_off);

/* --- regroup.c: functions are taken off --- */

/* One step on the way of those of the links' functions that are to go (GS_MODE_OFF). True when
 * there are more to make. */
bool uprobe_links_regroup(struct gs_uprobe *probe, struct links *links, const char *path,
			  pid_t pid);

/* Probes on the function count still, and are on their way out: not where that has failed. */
bool uprobe_links_will_lose(const struct links *links, uint16_t func);

/* --- pycall.c: calls of Python functions --- */

/* Read-only data of the programs, from the start on. At most GS_PY_GLOB_MAX patterns. */
void uprobe_pycall_fill(void *rodata, const struct gs_uprobe_options *options);

/* Their numbers. *ret_set stays NULL where they are not traced, which the others take. */
int uprobe_pycalls_new(struct gs_uprobe *probe, struct gs_pyfunc_set **ret_set);
void uprobe_pycalls_event(struct gs_pyfunc_set *set, const struct gs_event *event);
void uprobe_pycalls_drain(struct gs_uprobe *probe);

/* --- user.c: probes that the user described --- */

struct users; /* which files had which, and what their calls added up to */

/* *ret_users NULL: there are none. */
int uprobe_users_new(struct gs_uprobe *probe, struct users **ret_users);
void uprobe_users_free(struct users **users);

/* Is a function among them that may throw, and whose return is wanted? */
bool uprobe_users_may_throw(const struct gs_user_set *set);

/* Attach what a file has of the described probes; links are added. How many were placed. */
unsigned uprobe_users_attach(struct gs_uprobe *probe, struct links *links,
			     const struct gs_mapped_file *file, pid_t only_pid);

void uprobe_users_attach_paths(struct gs_uprobe *probe); /* to files named by their path */
void uprobe_users_drain(struct gs_uprobe *probe, const struct gs_uprobe_handler *handler);
void uprobe_users_report_missing(struct gs_uprobe *probe);

/* --- turns.c: files that wait for their probes, by owner --- */

struct turns;

struct turns *uprobe_turns_new(void);
void uprobe_turns_free(struct turns **turns);

/* A process has this file mapped: it is looked at when its turn comes, if it is not known yet.
 * late_since_ns: since when (monotonic) it has been mapped without probes; 0: not known. */
void uprobe_turns_add(struct gs_uprobe *probe, pid_t pid, const struct gs_mapped_file *file,
		      uint64_t late_since_ns);

/* n turns at most, of each user. True: more are waiting. */
bool uprobe_turns_serve(struct gs_uprobe *probe, unsigned n);
size_t uprobe_turns_n_waiting(const struct turns *turns);

/* --- gpu.c: work that was added up by stream --- */

struct uprobe_gpu_before;

int uprobe_gpu_new(struct gs_uprobe *probe); /* 0 or -ENOMEM */

/* During gs_uprobe_poll(). False: the event is another one. */
bool uprobe_gpu_event(struct gs_uprobe *probe, const struct gs_event *event);
void uprobe_gpu_drain(struct gs_uprobe *probe, const struct gs_uprobe_handler *handler);

struct file_table; /* by identity (and pid, where links are made by process) */

struct gs_uprobe {
	struct gs_uprobe_options options; /* texts and lists copied */
	pid_t *pids;                      /* owned copy */
	char **globs, **ops;              /* owned copies */
	char *comm, *cgroup;
	bool by_process; /* links are made for one process each: others pay nothing */
	bool saw_target; /* a process of the selection ran */
	bool cgroup_v1;  /* members are followed one by one */
	struct features features;
	struct gs_attach_plan_options plan; /* on_attach is that of the options */
	struct gs_attach_plan_selection selection;
	struct uprobe_kernel_side kernel;
	struct file_table *files;
	struct turns *turns;
	struct gs_map descent;                /* processes chosen by id, and their children */
	struct users *users;                  /* NULL: none */
	struct gs_pyfunc_set *pycalls;        /* NULL: none; the consumer's */
	struct gs_sideband *watch;            /* NULL: not available */
	uint32_t n_cells;                     /* at most, of the kernel side */
	struct gs_mpi_row *mpi_before;        /* owned: rows as handed over last */
	struct uprobe_gpu_before *gpu_before; /* owned: likewise; NULL: not asked for */
	struct gs_cell *before;               /* owned: cells as handed over last */
	struct gs_hits *hits_before;          /* owned: by cell, as of the last glance */
	uint64_t *cpu_before_ns;              /* owned: by slot, likewise */
	uint64_t *account_handed_ns;          /* owned: by account, when it was handed over */
	/* Processes that launched work; the accounts of the last ones are still to be handed over. */
	uint32_t launched[UPROBE_LAUNCHED_MAX];
	unsigned n_launched, n_launched_handed;
	bool account_stale;                      /* processes were chosen since the last walk */
	const struct gs_uprobe_handler *handler; /* during gs_uprobe_poll() */
	int n_polled;
	/* Notices of files: left at the end; seen; of known files; lost, as of the last look, and its time. */
	uint64_t n_unread, n_mapped, n_known, n_dropped, dropped_ns;
	_Atomic bool regroup; /* a function is to go, or on its way */
	/* Functions in GS_MODE_OFF: a file has it without probes; that was reported, as soon as no
	 * other file was still to lose them. */
	bool off_somewhere[GS_FUNC_MAX], off_reported[GS_FUNC_MAX];
	uint64_t ops_found; /* bit n: a file had what options.ops[n] names */
	char attach_mode[160];
};

/* Are calls of CUDA that may be cancellation points left without a return probe, one by one? */
static inline bool uprobe_leaves_first_calls(const struct gs_uprobe *probe)
{
	return probe->features.session && !probe->features.return_is_kept &&
	       !(probe->options.disabled_features & GS_DISABLED_RETURN_PROBES);
}

/* The id whose probes and mode a function has: all Python functions share those of one. */
static inline uint16_t uprobe_placed_as(const struct gs_uprobe *probe, uint16_t id)
{
	return id >= GS_FUNC_MAX ? probe->selection.py_func : id;
}

struct file_table *uprobe_files_new(void);
/* Hands the link descriptors of all files over into *ret_links. */
void uprobe_files_free(struct file_table **files, struct links *ret_links);

/* Attaches to a file that a process has mapped, if it is of interest. ret_new: it was new. */
int uprobe_files_use(struct gs_uprobe *probe, pid_t pid, const struct gs_mapped_file *file,
		     bool *ret_new);

/* The file has been looked at; its users are noted. */
bool uprobe_files_known(struct gs_uprobe *probe, pid_t pid, const struct gs_mapped_file *file);

/* It has been looked at, and has none, in any process. */
bool uprobe_files_is_plain(const struct gs_uprobe *probe, struct gs_file_id id);
/* How many probes it has. */
unsigned uprobe_files_n_probes(struct gs_uprobe *probe, pid_t pid,
			       const struct gs_mapped_file *file);

/* By its name it is a library of CUDA, NCCL or PyTorch. */
bool uprobe_files_scan_traced(const char *path);
const char *uprobe_files_reason_of(int status);
void uprobe_files_report_failure(struct gs_uprobe *probe, const char *path, const char *function,
				 const char *reason, int status, uint32_t layer);
void uprobe_files_process_gone(struct gs_uprobe *probe, pid_t pid);
void uprobe_files_sweep(struct gs_uprobe *probe);

/* Functions in GS_MODE_OFF are not attached any more. */
bool uprobe_files_is_off(const struct gs_uprobe *probe, uint16_t func);

/* What a hit at a placed probe is made of (on_function). row: of described probes, else NULL. */
void uprobe_files_report_cost(struct gs_uprobe *probe, const struct gs_attach_plan_place *place,
			      const struct gs_user_row *row);

/* Take off the probes of functions that are to go, a step at a time. */
void uprobe_files_regroup(struct gs_uprobe *probe);
/* No step comes any more: what has begun to go is reported as off. */
void uprobe_files_regroup_end(struct gs_uprobe *probe);

/* Report names of operators that no file had, where others of them were found. */
void uprobe_files_report_missing_ops(struct gs_uprobe *probe);
unsigned uprobe_files_count(const struct file_table *files, unsigned *ret_n_probes);

/* --- target.c: which processes --- */

int uprobe_target_config(struct gs_uprobe *probe, struct gs_kernel_config *config,
			 struct gs_err *err);
/* After loading: what only a map can hold. */
int uprobe_target_fill_maps(struct gs_uprobe *probe, struct gs_err *err);
bool uprobe_target_may_match(const struct gs_uprobe *probe, pid_t pid);
bool uprobe_target_is_named(const struct gs_uprobe *probe, pid_t pid); /* when a name was chosen */
/* The descendants that a followed process has already. */
void uprobe_target_follow_children(struct gs_uprobe *probe, pid_t pid, int depth);
void uprobe_target_follow_cgroup_v1(struct gs_uprobe *probe);

#endif
