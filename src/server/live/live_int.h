/* Private to the room. */
#ifndef GS_SERVER_LIVE_LIVE_INT_H
#define GS_SERVER_LIVE_LIVE_INT_H

#include <pthread.h>

#include <stdatomic.h>

#include "analysis/gpu_health/gpu_health.h"
#include "core/base/mem.h"
#include "server/live/answer.h"
#include "server/live/live.h"
#include "server/live/snapshot.h"
#include "server/live/reply.h"

struct live_route {
	struct gs_live *live;
	const struct gs_live_endpoint *endpoint;
};

struct gs_live {
	struct gs_live_options o;
	struct live_route route[GS_LIVE_ENDPOINTS];
	_Atomic uint64_t asked_ns;
	struct live_answers *answers; /* owned; of the server's thread */
	pthread_mutex_t lock;
	struct gs_live_snapshot *snapshot; /* under it: the newest; referenced; NULL: none yet */
};

/* --- live.c --- */

void live_settings(const struct gs_live *a, struct gs_live_settings *ret);

/* The facts, as an object of the overview. */
void live_put_facts(const struct gs_live *a, struct gs_buf *b);

/* --- snapshot.c --- */

/* What was made with some effort is used again for so many times as long as it took, but no longer
 * than a second, which is how often nodes measure. */
#define LIVE_AGAIN        20
#define LIVE_AGAIN_MAX_NS 1000000000ull
uint64_t live_again_until(uint64_t began_ns, uint64_t now_ns);

/* Now and then: one that will not be used again is given back, for it keeps old snapshots in memory.
 */
void live_snapshot_forget(struct gs_live *a);

/* --- answer.c --- */

void live_answers_free(struct gs_live *a);

/* --- job.c: jobs as processes on GPUs show them --- */

struct live_job {
	char job[64], user[64];
	size_t n_gpus;
	double least, median, most; /* of their utilization now */
	/* Of the last minute, not of a snapshot; NAN and false where it is not known. */
	bool is_idle;                       /* none of its GPUs did anything */
	double straggler_mean, median_mean; /* utilization of its least busy GPU, and of all */
	/* One GPU did much less than the others, which may wait for it: */
	bool has_straggler;
	const struct gs_registry_node *node; /* of that one; the snapshot's */
	uint32_t gpu;
	char reason[GS_GPU_HEALTH_TEXT_BYTES]; /* what is wrong with it; "" nothing */
};

/* By name, to be freed. NULL: no memory. */
struct live_job *live_jobs_now(const struct gs_live *live, const struct gs_live_snapshot *snapshot,
			       size_t *ret_n);

/* The job of a process; "" none. The snapshot's. */
const char *live_job_of(const struct gs_registry_node *n, const struct gs_gpu_process *p);

/* --- events.c --- */

/* What is now, as an event. */
void live_publish(struct gs_live *a, struct gs_http *http);

/* --- handlers --- */

#define LIVE_HANDLER(name)                                                                         \
	void name(void *ctx, const struct gs_http_request *q, struct gs_http_reply *reply)

/* One that makes its answer out of a snapshot. */
#define LIVE_LOOK(name)                                                                            \
	static void look_##name(void *ctx, const struct gs_live_snapshot *l,                       \
				const struct gs_http_request *q, struct gs_http_reply *reply);     \
	LIVE_HANDLER(name)                                                                         \
	{                                                                                          \
		gs_live_answer(ctx, q, reply, look_##name, ctx);                                   \
	}                                                                                          \
	static void look_##name(void *ctx, const struct gs_live_snapshot *l,                       \
				const struct gs_http_request *q, struct gs_http_reply *reply)

LIVE_HANDLER(live_overview);
LIVE_HANDLER(live_nodes);
LIVE_HANDLER(live_node);
LIVE_HANDLER(live_gpus);
LIVE_HANDLER(live_processes);
LIVE_HANDLER(live_process);
LIVE_HANDLER(live_jobs);
LIVE_HANDLER(live_alerts);
LIVE_HANDLER(live_heatmap);
LIVE_HANDLER(live_series);
LIVE_HANDLER(live_events);
LIVE_HANDLER(live_page);

#endif
