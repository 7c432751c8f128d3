/*
 * Findings of a run: steps, calls, GPUs, the machine, its processes and jobs as series for the detectors
 * of analysis/detect, and what they found, each with its cause, if that is known, and with what began near
 * it.
 *
 * In come steps and calls as they end, accounts of threads, and snapshots of nodes, each in the order of
 * time. Findings go out as they come (gs_explain_report()) or at the end (gs_explain_finish()); which steps
 * are those of the run is said there. Memory is bounded by the limits below. One thread.
 *
 * That two findings begin at the same time does not prove that one causes the other, and no text here
 * says so. A cause is named where another layer has most of the difference (cause.c); else it is not
 * known.
 */
#ifndef GS_ANALYSIS_EXPLAIN_EXPLAIN_H
#define GS_ANALYSIS_EXPLAIN_EXPLAIN_H

#include "analysis/detect/detect.h"
#include "core/base/err.h"
#include "model/node/host.h"
#include "model/trace/account.h"

#define GS_EXPLAIN_STEP_SLOTS 16   /* threads whose steps are followed, two attempts of each */
#define GS_EXPLAIN_MAX_SERIES 512  /* of all but steps and calls; samples of more are counted */
#define GS_EXPLAIN_MAX_CALLS  1024 /* functions by size and process */
/* A function of one size gets a series by its call of this number: what each process calls some times
 * as it starts would take all places before the training loop begins. */
#define GS_EXPLAIN_RARE_CALLS 64
#define GS_EXPLAIN_MAX_RARE                                                                        \
	16384 /* functions by size and process that are counted; calls of more are left out */
#define GS_EXPLAIN_MAX_FINDINGS                                                                    \
	1024 /* more take the place of ended ones that were reported; else they are counted */
#define GS_EXPLAIN_NAME_BYTES 96
#define GS_EXPLAIN_JOB_BYTES  48

/* Findings that begin so near each other are shown together; slow growth has no sharper begin. */
#define GS_EXPLAIN_NEAR_NS 60000000000ull
#define GS_EXPLAIN_BESIDE  4

/* Latencies must be unusual for so long, and make so much of the time that passes more or less: a busy
 * machine makes all calls unusual for moments, and most of them matter little. */
#define GS_EXPLAIN_CALLS_NS    5000000000ull
#define GS_EXPLAIN_CALLS_SHARE 0.02

/* For so long after the begin of a finding its cause is looked for. */
#define GS_EXPLAIN_CAUSE_NS 60000000000ull

struct gs_explain;

enum gs_explain_subject {
	GS_EXPLAIN_STEPS = 1,       /* of the run */
	GS_EXPLAIN_GPU_STATE = 2,   /* memory, power and temperature of a GPU */
	GS_EXPLAIN_GPU_MEMORY = 3,  /* in use of a GPU, bytes */
	GS_EXPLAIN_NODE_MEMORY = 4, /* in use of a node, bytes */
	GS_EXPLAIN_PROCESS = 5,     /* resident memory of a process, bytes */
	GS_EXPLAIN_CALLS = 6,       /* latency of one function with one size in one process, ns */
	/* Shares, of a thread's time and of a process's launches and copies, and of a GPU's samples. */
	GS_EXPLAIN_LAUNCHES = 7,
	GS_EXPLAIN_TINY_KERNELS = 8,
	GS_EXPLAIN_PAGEABLE = 9,
	GS_EXPLAIN_IDLE_GPU = 10,
	GS_EXPLAIN_ALLOCATOR = 11, /* memory that PyTorch's allocator reserves, bytes */
	GS_EXPLAIN_ALLOCATED = 12, /* memory of GPUs that a process allocated, bytes */
	GS_EXPLAIN_THROTTLED = 13, /* share of a GPU's samples at work */
	GS_EXPLAIN_OVERLAP = 14,   /* share of a process's time in communication on a GPU */
	/* Numbers of errors: XIDs of one number, and of the links of a GPU. */
	GS_EXPLAIN_XID = 15,
	GS_EXPLAIN_PCIE = 16,
	GS_EXPLAIN_NVLINK = 17,
};

#define GS_EXPLAIN_EVIDENCE 6 /* four of where the time went, and two of what else there was */

struct gs_explain_evidence { /* what another layer did at that time */
	const char *key;     /* static; "runqueue" */
	const char *title;   /* static; the same for people */
	bool is_count;       /* else ns */
	/* In each step; of a stall: in all of it; of calls: in each second. */
	double before, after;
};

struct gs_explain_cause {
	const char *key;     /* static; NULL: not known */
	const char *command; /* static; what shows it: a command, or an option of `report` */
	char text[224];      /* for people */
	double confidence;   /* how much of the difference it is, 0 to 1 */
	uint64_t judged_ns;  /* how much time since the begin of the finding it rests on */
	uint32_t pid;        /* the process that it is; 0: none */
	uint32_t site;       /* a number of the room's of the call site that it is; 0: none */
	double site_bytes;   /* which are held from there since then */
	uint32_t n_evidence; /* the largest differences first */
	struct gs_explain_evidence evidence[GS_EXPLAIN_EVIDENCE];
};

struct gs_explain_finding {
	enum gs_explain_subject subject;  /* what sort of series it is of */
	char name[GS_EXPLAIN_NAME_BYTES]; /* whose series it is; "" of steps */
	char job[GS_EXPLAIN_JOB_BYTES];   /* whose process or GPU it is; "" of none, or not known */
	uint32_t gpu;                     /* 1 + its index in samples; 0: not of one */
	uint32_t pid, tid; /* of steps, calls and processes; else, and where not known, 0 */
	uint32_t xid;      /* its number; 0: not of one */
	struct gs_explain_cause cause; /* judged again until GS_EXPLAIN_CAUSE_NS after its begin */
	bool begun_reported, ended_reported; /* by gs_explain_report() */
	struct gs_detect_finding begun;      /* as the detector reported its begin */
	uint64_t ended_ns;                   /* 0: it holds until the end */
	bool became_usual;                   /* it ended because it is what is usual now */
	double after;       /* the median over all of it, where that is known at its end */
	double calls_per_s; /* of calls: how many there were, until it was reported */
	/* Others that begin within GS_EXPLAIN_NEAR_NS of its begin, the nearest first: places in the
	 * same list. */
	uint32_t n_beside, beside[GS_EXPLAIN_BESIDE];
};

struct gs_explain_step {
	unsigned slot;     /* below GS_EXPLAIN_STEP_SLOTS */
	uint32_t run;      /* another one than before: what the slot had is void */
	uint32_t pid, tid; /* of its thread; 0: not known */
	uint64_t start_ns, dur_ns;
	bool regular; /* as most; others say that the program goes on, and nothing about its speed */
};

struct gs_explain_call {
	uint32_t process, function; /* any numbers that are theirs alone */
	uint32_t pid, tid;
	uint16_t layer, func_class; /* enum gs_layer, enum gs_func_class */
	const char *comm, *name;    /* of the process, and of the function; copied */
	uint64_t bytes;             /* that it moves; 0 none */
	uint64_t start_ns, dur_ns;
	uint64_t arg[4]; /* and aux: as in struct gs_event_call */
	uint32_t aux;
	bool failed;          /* it returned an error */
	bool seen_from_begin; /* its process is traced since it began */
	uint64_t site;        /* from where it was made: any number of its own; 0 not known */
};

/* Put the place of that number, "train.py:31 step", into out, or "". */
typedef void (*gs_explain_name_fn)(void *ctx, uint64_t site, char *out, size_t bytes);

struct gs_explain_memory { /* of a process on GPUs, in a second */
	uint32_t pid;
	const char *comm; /* copied */
	uint64_t time_ns;
	double allocated_bytes; /* by CUDA, the least; NAN: not known */
	double used_bytes;      /* of these, by PyTorch's allocator, the most; NAN: not known */
};

struct gs_explain_gpu_work { /* a kernel or a graph, by the GPU's own times */
	uint32_t pid;
	const char *comm; /* of its process; copied */
	uint32_t device;  /* as CUDA numbers it for the process */
	bool is_comm;     /* a kernel of communication; else it computes */
	uint64_t start_ns, end_ns;
};

struct gs_explain_account { /* of a thread, from its begin on */
	uint32_t pid, tid;
	uint64_t time_ns;
	uint64_t part_ns[GS_PART_COUNT]; /* by enum gs_account_part */
	/* What it did inside of calls of CUDA, NCCL and MPI, by the part that it would be outside of them. */
	uint64_t calls_ns[GS_PART_COUNT];
};

/* What the machine does to processes, and is in no account of a thread. */
enum gs_explain_stress_kind {
	GS_EXPLAIN_QUOTA = 0,       /* ns in which their CPU quota stopped traced processes */
	GS_EXPLAIN_RETRANSMITS = 1, /* TCP segments */
	GS_EXPLAIN_N_STRESSES
};

struct gs_explain_stress {
	enum gs_explain_stress_kind kind; /* what the machine was short of */
	uint64_t time_ns;
	double amount; /* since the one before of the same kind */
};

/* 0 or -ENOMEM. */
int gs_explain_new(struct gs_explain **ret);

/* And what it has found. NULL inside: nothing happens. */
void gs_explain_free(struct gs_explain **explain);

/* An option of a detector, "change.min_change", as text. Before the first step or snapshot. 0 or -EINVAL
 * with err. */
int gs_explain_set(struct gs_explain *explain, const char *key, const char *value,
		   struct gs_err *err);

/* How to name places, while it lives. Without it they have no names. */
void gs_explain_set_namer(struct gs_explain *explain, gs_explain_name_fn name, void *ctx);

/* A call that returned; its texts are copied. 0 or -ENOMEM. */
int gs_explain_take_call(struct gs_explain *explain, const struct gs_explain_call *call);

/* A step that ended. 0 or -ENOMEM. */
int gs_explain_take_step(struct gs_explain *explain, const struct gs_explain_step *step);

/* A second of a process's memory. 0 or -ENOMEM. */
int gs_explain_take_memory(struct gs_explain *explain, const struct gs_explain_memory *memory);

/* Work of a window in which all of it is known, in no order; without a time it is passed over. 0 or -ENOMEM. */
int gs_explain_take_gpu_work(struct gs_explain *explain, const struct gs_explain_gpu_work *work);

/* The window of a process has ended: all of its work came before. 0 or -ENOMEM. */
int gs_explain_take_window_end(struct gs_explain *explain, uint32_t pid);

/* Where the time of a thread went until now. Only threads that made calls or steps are followed. */
void gs_explain_take_account(struct gs_explain *explain, const struct gs_explain_account *account);

/* Some of it in the last second; where there was none, none need be said. */
void gs_explain_take_stress(struct gs_explain *explain, const struct gs_explain_stress *stress);

/* A sample, lent for the call; it is a tick, too. 0 or -ENOMEM. */
int gs_explain_take_node(struct gs_explain *explain, const struct gs_node_snapshot *node);

/* Time has passed until now_ns, with or without steps. */
void gs_explain_tick(struct gs_explain *explain, uint64_t now_ns);

/* A finding that begins, or ended. */
typedef void (*gs_explain_report_fn)(void *ctx, const struct gs_explain_finding *finding);

/* What has begun or ended since the last time, steps only of the slot that has most time. While a cause may
 * still be found, up to five seconds after a finding, it is not reported yet. */
void gs_explain_report(struct gs_explain *explain, uint64_t now_ns, gs_explain_report_fn fn,
		       void *ctx);

struct gs_explain_result {
	const struct gs_explain_finding *findings; /* lent, in the order of their begin */
	size_t n_findings;
	uint64_t n_steps; /* of the chosen slot and run */
	uint64_t n_samples;
	uint64_t n_left_out; /* findings, and samples of series, that had no place */
};

/* No more comes. Steps are those of slot and run; run 0: there are none. The result is valid as long as
 * the explain lives. 0 or -ENOMEM. */
int gs_explain_finish(struct gs_explain *explain, unsigned slot, uint32_t run,
		      struct gs_explain_result *ret);

/* "steps take 12.1 % longer (100 ms -> 112 ms)", "node7 GPU 0: unusual power share (0.75 -> 0.40)": one
 * line without times. Returns out. */
#define GS_EXPLAIN_TEXT_BYTES 256
const char *gs_explain_text(const struct gs_explain_finding *finding,
			    char out[GS_EXPLAIN_TEXT_BYTES]);

/* What shows it: of its cause, or of its kind. A command, or an option of `report`. */
const char *gs_explain_command(const struct gs_explain_finding *finding);

/* What to do about it, one sentence or two; "" where only the cause can say. */
const char *gs_explain_advice(const struct gs_explain_finding *finding);

/* "steps", "gpu_state": a word of data for enum gs_explain_subject. */
const char *gs_explain_subject_name(enum gs_explain_subject subject);

/* A finding's detector and subject as one number above 0, for what has room for no more (a signal); 0: of no detector that is
 * known. The other one has it in words, "idle of idle_gpu"; false: that is not such a number, as a foreign one may be. */
int gs_explain_number(const struct gs_explain_finding *finding);
bool gs_explain_number_text(int number, char *out, size_t bytes);

/* "ns", "bytes", "ratio", "celsius", "count": the unit of before and after. */
const char *gs_explain_unit(const struct gs_explain_finding *finding);

#endif
