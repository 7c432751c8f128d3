/*
 * Private to the room: the cluster as answers see it. A look never changes; who holds a reference
 * may read it on any thread, and nobody who delivers waits for that.
 */
#ifndef GS_API_API_LOOK_H
#define GS_API_API_LOOK_H

#include <stdatomic.h>

#include "api/api_int.h"

enum api_state { /* of a GPU, worse is more */
		 API_OK = 0,
		 API_IDLE = 1,
		 API_THROTTLED = 2,
		 API_UNREACHABLE = 3,
		 API_FAILING = 4,
		 API_STATES
};
const char *api_state_name(unsigned state);

struct api_sums {
	uint64_t n_gpus, state[API_STATES], n_power, n_util;
	double power, util, used, total;
};

struct api_look_gpu {
	uint32_t node; /* its place in the view */
	uint32_t gpu;  /* its place in the node's snapshot */
	uint8_t state;
};

struct api_look {
	atomic_uint refs;
	struct gs_cluster_view *view;
	uint64_t until_ns; /* monotonic: it may be used again, although something has changed */
	size_t n_nodes, n_healthy;
	uint32_t *first;          /* of each node (and the end): the number of its first GPU */
	struct api_look_gpu *gpu; /* all, by node and place */
	uint32_t *worst;          /* their numbers, worst first, of the same state the least used */
	struct api_sums all;
};

/* What was made with some effort is used again for so many times as long as it took, but no longer
 * than a second, which is how often nodes measure. */
#define API_AGAIN        20
#define API_AGAIN_MAX_NS 1000000000ull
uint64_t api_again_until(uint64_t began_ns, uint64_t now_ns);

/* The cluster now; referenced. NULL: no memory. Any thread. */
struct api_look *api_look(struct gs_api *a);
void api_look_unref(struct api_look **look);

/* Now and then: one that nobody will use again is given back, for it keeps old moments in memory.
 */
void api_look_forget(struct gs_api *a);

static inline uint32_t api_look_gpus(const struct api_look *l, size_t node)
{
	return l->first[node + 1] - l->first[node];
}

static inline enum api_state api_look_state(const struct api_look *l, size_t node, uint32_t gpu)
{
	return (enum api_state)l->gpu[l->first[node] + gpu].state;
}

/* Of one node. */
void api_look_sums(const struct api_look *l, size_t node, struct api_sums *ret_sums);

/* A value; NAN: it is not known. */
double api_value(const struct gs_gpu_sample *s, enum gs_gpu_field f);

/* What the GPU itself says is broken; NULL: nothing. */
const char *api_failure_of(const struct gs_cluster_node *n, uint32_t gpu);

/* Whether the node's last error of a GPU is of this one, and not long ago. */
bool api_event_is_of(const struct gs_cluster_node *n, const struct gs_gpu_info *g);

/* --- api_answer.c --- */

typedef void (*api_answer_fn)(struct gs_api *a, const struct api_look *l,
			      const struct gs_http_request *q, struct gs_http_reply *reply);

/* The answer that fn makes out of a look, or the same as a moment ago for who asks the same. For
 * the server's thread. */
void api_answer(struct gs_api *a, const struct gs_http_request *q, struct gs_http_reply *reply,
		api_answer_fn fn);
void api_answers_free(struct gs_api *a);

/* A handler that is such a function. */
#define API_LOOK(name)                                                                             \
	static void look_##name(struct gs_api *a, const struct api_look *l,                        \
				const struct gs_http_request *q, struct gs_http_reply *reply);     \
	API_HANDLER(name)                                                                          \
	{                                                                                          \
		api_answer(ctx, q, reply, look_##name);                                            \
	}                                                                                          \
	static void look_##name(struct gs_api *a, const struct api_look *l,                        \
				const struct gs_http_request *q, struct gs_http_reply *reply)

#endif
