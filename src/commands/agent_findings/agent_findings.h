/* Findings of this node, as the agent follows its GPUs, machine, processes and jobs. */
#ifndef GS_COMMANDS_AGENT_FINDINGS_AGENT_FINDINGS_H
#define GS_COMMANDS_AGENT_FINDINGS_AGENT_FINDINGS_H

#include "core/base/buf.h"
#include "core/base/err.h"
#include "model/node/gpu.h"
#include "output/metrics/metrics.h"
#include "output/metrics_push/push.h"

struct agent_findings;

/* Begins to follow; all functions take NULL, which says that findings are off. settings: KEY=VALUE of detectors,
 * with commas. 0 or a negative errno with err. */
int agent_findings_start(const char *settings, struct agent_findings **ret_findings,
			 struct gs_err *err);
void agent_findings_stop(struct agent_findings **findings);

/* What was read last, from the main thread. The GPUs are lent. */
void agent_findings_take(struct agent_findings *findings, const struct gs_gpu_snapshot *gpu);

/* Those that have changed since number `since`, of one job or (NULL) all, the newest last, as text or a line
 * of JSON each; the last line, "ok: N", has the number to ask for next. Any thread. */
void agent_findings_put_lines(struct agent_findings *findings, uint64_t since, const char *job,
			      bool as_text, struct gs_buf *out);

/* The same of the words of a command, "17 json" or "17 text JOB". */
void agent_findings_take_words(struct agent_findings *findings, const char *words,
			       struct gs_buf *out);

/* The document of the API. Any thread. */
void agent_findings_put_document(struct agent_findings *findings, struct gs_buf *out);

/* Families of metrics: how many hold, and have been found. Any thread. */
void agent_findings_metrics(struct agent_findings *findings, struct gs_metrics *p);

/* Those that have changed since number *since as log records, WARN when they begin and INFO when they are over;
 * *since moves on. One thread at a time. 0, -ENOMEM or -ENOBUFS. */
int agent_findings_put_logs(struct agent_findings *findings, uint64_t *since,
			    struct push_message *out);

/* Those that began after number `since`, by the id of their job, "" of none, and what they are (gs_explain_number());
 * the number to ask with next. Any thread. */
uint64_t agent_findings_each_begun(struct agent_findings *findings, uint64_t since,
				   void (*fn)(void *ctx, const char *job, int what), void *ctx);

/* How many hold now; NAN: findings are off. Any thread. */
double agent_findings_holding(struct agent_findings *findings);

#endif
