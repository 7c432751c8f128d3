/* What the files of the room share. Inside the room only. */
#ifndef GS_ANALYSIS_EXPLAIN_EXPLAIN_INT_H
#define GS_ANALYSIS_EXPLAIN_EXPLAIN_INT_H

#include "analysis/explain/explain.h"

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
void explain_evidence_take_gpus(struct evidence *evidence, const struct gs_node_snapshot *node);

/* Why steps of the thread take longer or shorter, or why none ends, as far as it is known until until_ns.
 * What rests on less time than what is there already changes nothing. */
void explain_evidence_judge_steps(const struct evidence *evidence,
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

/* 0 or -ENOMEM. */
int explain_pace_take_call(struct gs_explain *explain, struct pace *pace,
			   const struct gs_explain_call *call);

/* --- explain.c --- */

/* A sample of a series of a process, or of one of its threads (tid 0: of all). 0 or -ENOMEM. */
int explain_feed_calls(struct gs_explain *explain, const struct gs_detector *detector,
		       enum gs_explain_subject subject, const char *comm, uint32_t pid,
		       uint32_t tid, uint64_t time_ns, const double *values);

#endif
