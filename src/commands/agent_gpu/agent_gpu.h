/*
 * What processes ask of GPUs, on request: agent_gpu.c. A request names a process, with what it starts from
 * then on, or a job, and a time after which its probes are removed. As long as no request runs there are
 * no probes and no thread. Processes that report from inside (agent_inside.h) get no probes for what they report.
 */
#ifndef GS_COMMANDS_AGENT_GPU_AGENT_GPU_H
#define GS_COMMANDS_AGENT_GPU_AGENT_GPU_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "core/base/err.h"
#include "model/node/gpu.h"
#include "output/metrics/metrics.h"

struct agent_gpu;

/* NULL: no memory. snapshot: of the GPUs, which the caller owns then; NULL: there is none. */
struct agent_gpu *agent_gpu_new(struct gs_gpu_snapshot *(*snapshot)(void *ctx), void *ctx);
void agent_gpu_free(struct agent_gpu **gpu);

/* Whether processes that report from inside are read, from the next time on that probes are needed. */
void agent_gpu_set_inside(struct agent_gpu *gpu, bool reads);

/* what: "1234", a process, or "job:ID". time_ns from now; 0: the request ends. linger_ns:
 * for which sums stay when the last request is over. Any thread. -EINVAL,
 * -ENOENT: there is no such process, job or request; -EBUSY: too many; with a text. */
int agent_gpu_request(struct agent_gpu *gpu, const char *what, uint64_t time_ns, uint64_t linger_ns,
		      struct gs_err *err);

struct agent_gpu_limits {
	uint64_t max_ns, linger_ns; /* of a request; as linger_ns of agent_gpu_request() */
	bool reads_inside;
};

#define AGENT_GPU_USUAL UINT64_MAX /* a minute, or the longest time */

/* The same within limits, with an answer of one line, "ok: ..." or "error: ...", without its end. -EPERM: too long. */
int agent_gpu_ask(struct agent_gpu *gpu, const struct agent_gpu_limits *limits, const char *what,
		  uint64_t time_ns, char *answer, size_t bytes);

/* "1234" or "1234 60000ms", the words of a request: *ret_time_ns as it stands there or AGENT_GPU_USUAL. -EINVAL with an answer
 * as above. */
int agent_gpu_parse_words(const char *words, char ret_what[80], uint64_t *ret_time_ns, char *answer,
			  size_t bytes);

/* What is traced, how long yet, and what was found: lines for people, and JSON. */
void agent_gpu_status(struct agent_gpu *gpu, struct gs_buf *out);
void agent_gpu_document(struct agent_gpu *gpu, struct gs_buf *out);

/* Nothing before the first request. Any thread. */
void agent_gpu_metrics(struct gs_metrics *p, struct agent_gpu *gpu);

#endif
