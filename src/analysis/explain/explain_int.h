/* What the files of the room share. Inside the room only. */
#ifndef GS_ANALYSIS_EXPLAIN_EXPLAIN_INT_H
#define GS_ANALYSIS_EXPLAIN_EXPLAIN_INT_H

#include "analysis/explain/explain.h"

/* Of what grew: then the process or call site is named. Of a difference: a cause that is named makes so much more of it than
 * any other. */
#define EXPLAIN_NAMED_SHARE 0.5
#define EXPLAIN_CLEAR_SHARE 0.1

/* "node7 GPU 0". */
void explain_name_gpu(const struct gs_node_snapshot *node, uint32_t gpu,
		      char out[GS_EXPLAIN_NAME_BYTES]);

/* What other layers did, over the last minutes: of threads that make calls or steps, and of GPUs. Bounded. */
struct evidence;

struct evidence *explain_evidence_new(void); /* NULL: no memory */
void explain_evidence_free(struct evidence **evidence);

/* From now on the account of the thread is kept. 0 or -ENOMEM; where there are too many threads, nothing. */
int explain_evidence_follow(struct evidence *evidence, uint32_t pid, uint32_t tid);

void explain_evidence_take_account(struct evidence *evidence,
				   const struct gs_explain_account *account);
void explain_evidence_take_call(struct evidence *evidence, const struct gs_explain_call *call);
void explain_evidence_take_stress(struct evidence *evidence,
				  const struct gs_explain_stress *stress);
void explain_evidence_take_gpus(struct evidence *evidence, const struct gs_node_snapshot *node);

/* Why steps of the thread take longer or shorter, or why none ends, as far as it is known until until_ns.
 * What rests on less time than what is there already changes nothing. */
void explain_evidence_judge_steps(const struct evidence *evidence,
				  const struct gs_explain_finding *finding, uint64_t until_ns,
				  struct gs_explain_cause *cause);

/* Why calls of a thread take longer or shorter: what it did inside of them, or what came to its GPU. */
void explain_evidence_judge_calls(const struct evidence *evidence,
				  const struct gs_explain_finding *finding, uint64_t until_ns,
				  struct gs_explain_cause *cause);

/* By what the GPU of this name is throttled. */
void explain_evidence_judge_throttle(const struct evidence *evidence,
				     const struct gs_explain_finding *finding, uint64_t until_ns,
				     struct gs_explain_cause *cause);

/* Why the GPU of this name is in another state. */
void explain_evidence_judge_gpu(const struct evidence *evidence,
				const struct gs_explain_finding *finding, uint64_t until_ns,
				struct gs_explain_cause *cause);

/* --- pace.c: what a second of calls is like --- */

struct pace;

struct pace *explain_pace_new(void); /* NULL: no memory */
void explain_pace_free(struct pace **pace);

/* Is it memory of the host that a GPU reaches by itself, by the name of who gives it? */
bool explain_gives_pinned(const char *name);

/* What makes the share: of launches how many and how long, of copies which call. */
void explain_pace_judge(const struct pace *pace, const struct gs_explain_finding *finding,
			struct gs_explain_cause *cause);

/* 0 or -ENOMEM. */
int explain_pace_take_call(struct gs_explain *explain, struct pace *pace,
			   const struct gs_explain_call *call);

/* --- gpus.c: samples of GPUs --- */

struct gpus;

struct gpus *explain_gpus_new(void); /* NULL: no memory */
void explain_gpus_free(struct gpus **gpus);

/* One GPU of a sample. 0 or -ENOMEM. */
int explain_gpus_take(struct gs_explain *explain, struct gpus *gpus,
		      const struct gs_node_snapshot *node, uint32_t gpu);

/* --- growth.c: whose memory grew --- */

struct growth;

struct growth *explain_growth_new(void); /* NULL: no memory */
void explain_growth_free(struct growth **growth);

/* Memory of the processes of a sample. */
void explain_growth_take(struct growth *growth, const struct gs_node_snapshot *node);

/* A point of what one of many (id, from 1) holds of something, or of all of it (0); bytes below 0: not known. */
void explain_growth_add(struct growth *growth, const char *of, uint32_t id, const char *comm,
			uint64_t time_ns, double bytes);

/* Which of them has most of what all of it grew by between the two times; 0: none has, or it is not known. */
uint32_t explain_growth_find(const struct growth *growth, const char *of, uint64_t from_ns,
			     uint64_t to_ns, double *ret_bytes, double *ret_share);

/* By how much one of them, or all (id 0), grew; 0 when it has gone. */
double explain_growth_of(const struct growth *growth, const char *of, uint32_t id, uint64_t from_ns,
			 uint64_t to_ns);

/* Which process makes most of what the memory of a node or GPU grew by. */
void explain_growth_judge(const struct growth *growth, const struct gs_explain_finding *finding,
			  uint64_t until_ns, struct gs_explain_cause *cause);

/* Which process holds most of a GPU that is idle. */
void explain_growth_judge_holder(const struct growth *growth,
				 const struct gs_explain_finding *finding, uint64_t until_ns,
				 struct gs_explain_cause *cause);

/* --- arguments.c: what calls of one series were asked for --- */

struct arguments;

struct arguments *explain_arguments_new(void); /* for free(); NULL: no memory */
void explain_arguments_take(struct arguments *arguments, const struct gs_explain_call *call,
			    uint64_t end_ns);

/* Are longer calls larger ones, or copies of another direction? */
void explain_arguments_judge(const struct arguments *arguments,
			     const struct gs_explain_finding *finding, uint64_t until_ns,
			     struct gs_explain_cause *cause);

/* --- sites.c: where memory of GPUs was asked for --- */

struct sites;

struct sites *explain_sites_new(void); /* NULL: no memory */
void explain_sites_free(struct sites **sites);
void explain_sites_set_namer(struct sites *sites, gs_explain_name_fn name, void *ctx);
void explain_sites_take_call(struct sites *sites, const struct gs_explain_call *call);

/* A second of a process; all_bytes: as of the series that is followed. */
void explain_sites_take_second(struct sites *sites, uint32_t pid, uint64_t time_ns,
			       double all_bytes);

/* Its text again: by now the place may have a name. Of no call site: nothing happens. */
void explain_sites_describe(const struct sites *sites, struct gs_explain_cause *cause);

/* From which place most of the growth comes. */
void explain_sites_judge(struct sites *sites, const struct gs_explain_finding *finding,
			 uint64_t until_ns, struct gs_explain_cause *cause);

/* --- overlap.c: communication and computation by the GPU's own times --- */

struct overlap;

struct overlap *explain_overlap_new(void); /* NULL: no memory */
void explain_overlap_free(struct overlap **overlap);

/* 0 or -ENOMEM. */
int explain_overlap_take(struct gs_explain *explain, struct overlap *overlap,
			 const struct gs_explain_gpu_work *work);

/* 0 or -ENOMEM. */
int explain_overlap_end(struct gs_explain *explain, struct overlap *overlap, uint32_t pid);

/* --- explain.c --- */

struct owner {                  /* of a series of samples, as it is now */
	const char *job;        /* "": of none */
	uint32_t gpu, pid, xid; /* as in struct gs_explain_finding */
};

/* A sample of the series of this name, made when it is new. 0 or -ENOMEM. */
int explain_feed_named(struct gs_explain *explain, const struct gs_detector *detector,
		       enum gs_explain_subject subject, const char *name, struct owner owner,
		       uint64_t time_ns, const double *values);

/* A sample of a series of a process, or of one of its threads (tid 0: of all). 0 or -ENOMEM. */
int explain_feed_calls(struct gs_explain *explain, const struct gs_detector *detector,
		       enum gs_explain_subject subject, const char *comm, uint32_t pid,
		       uint32_t tid, uint64_t time_ns, const double *values);

#endif
