/* What GPUs did, as processes report it (model/companion/gpu.h): checked, and handed on. */
#include "pipeline/inside/gpu.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/fmt.h"
#include "model/companion/gpu.h"

#define TEXT_BYTES    4096
#define NS_PER_S      1000000000ull
#define WINDOW_MIN_NS 100000000ull
#define PERIOD_MAX_NS (86400 * NS_PER_S)

/* What stands after a record's fixed part, up to a zero or its end. */
static void copy_text(char out[TEXT_BYTES], const struct gs_companion_record *r, size_t fixed)
{
	snprintf(out, TEXT_BYTES, "%.*s", (int)(r->bytes - fixed), (const char *)r + fixed);
}

static bool take_work(struct gs_ingest *feed, uint32_t pid, const struct gs_companion_gpu_work *r)
{
	if (!r->work.what || r->work.what >= GS_WORK_KINDS || r->work.end_ns < r->work.start_ns ||
	    r->name > GS_COMPANION_GPU_NAMES)
		return false;
	gs_ingest_gpu_work(feed, pid, r->name, &r->work);
	return true;
}

static bool take_state(struct gs_ingest *feed, uint32_t pid, const struct gs_companion_gpu_state *r)
{
	const struct gs_rec_gpu_window w = {.what = r->what,
					    .time_ns = r->time_ns,
					    .version = r->version,
					    .dropped = r->n_dropped,
					    .discarded = r->n_discarded,
					    .bad = r->n_bad};
	char text[TEXT_BYTES];

	_Static_assert((int)GS_COMPANION_GPU_REFUSED == (int)GS_GPU_WINDOW_REFUSED &&
			       (int)GS_COMPANION_GPU_OPENED == (int)GS_GPU_WINDOW_OPENED &&
			       (int)GS_COMPANION_GPU_YIELDED == (int)GS_GPU_WINDOW_YIELDED &&
			       (int)GS_COMPANION_GPU_CLOSED == (int)GS_GPU_WINDOW_CLOSED,
		       "one numbering");
	if (!w.what || w.what > GS_GPU_WINDOW_REFUSED)
		return false;
	copy_text(text, &r->head, sizeof(*r));
	gs_ingest_gpu_window(feed, pid, &w, text);
	return true;
}

bool gs_inside_take_gpu(struct gs_ingest *feed, uint32_t pid, const struct gs_companion_record *r)
{
	const struct gs_companion_gpu_name *name = (const void *)r;
	char text[TEXT_BYTES];

	switch (r->kind) {
	case GS_COMPANION_GPU_WORK:
		return take_work(feed, pid, (const void *)r);
	case GS_COMPANION_GPU_STATE:
		return take_state(feed, pid, (const void *)r);
	case GS_COMPANION_GPU_NAME:
		if (!name->id || name->id > GS_COMPANION_GPU_NAMES)
			return false;
		copy_text(text, r, sizeof(*name));
		gs_ingest_gpu_name(feed, pid, name->id, text);
		return true;
	}
	return true;
}

int gs_inside_gpu_window(const char *text, uint64_t *ret_window_ns, uint64_t *ret_period_ns)
{
	const char *slash = strchr(text, '/');
	char window[32];
	int r;

	*ret_window_ns = NS_PER_S;
	*ret_period_ns = 0;
	if (strcmp(text, "always") == 0)
		return 0;
	if (!slash || (size_t)(slash - text) >= sizeof(window))
		return -EINVAL;
	snprintf(window, sizeof(window), "%.*s", (int)(slash - text), text);
	r = gs_parse_ns(window, NS_PER_S, ret_window_ns);
	if (r == 0)
		r = gs_parse_ns(slash + 1, NS_PER_S, ret_period_ns);
	if (r == 0 && (*ret_window_ns < WINDOW_MIN_NS || *ret_period_ns <= *ret_window_ns ||
		       *ret_period_ns > PERIOD_MAX_NS))
		r = -EINVAL;
	return r;
}
