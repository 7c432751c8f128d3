/* What is too old, or too much, is removed: little by little, so that storing goes on. */
#include "server/head/head_int.h"
#include "core/base/log.h"

#include <string.h>

#include "core/base/clock.h"
#include "server/store/finding.h"

#define EVERY_NS 10000000000ull
#define AGAIN_NS 1000000000ull /* while there is more to remove */
#define WORK_NS  100000000ull  /* at a time */
#define STEP     500           /* batches in one transaction */

void head_kept(struct gs_head *h, struct gs_head_retention *ret_retention)
{
	pthread_mutex_lock(&h->lock);
	*ret_retention = h->o.retention;
	pthread_mutex_unlock(&h->lock);
}

void gs_head_set_retention(struct gs_head *head, const struct gs_head_retention *retention)
{
	pthread_mutex_lock(&head->lock);
	head->o.retention = *retention;
	head->coarse_changed = true;
	pthread_cond_broadcast(&head->coarse_wake);
	pthread_mutex_unlock(&head->lock);
}

static int too_old(uint64_t max_age_ns, struct gs_store *store)
{
	int64_t before = (int64_t)(gs_clock_wall_ns() - max_age_ns);
	int r = max_age_ns ? gs_store_expire(store, before, STEP) : 0;

	if (r == 0 && max_age_ns)
		r = gs_store_report_expire(store, before, STEP);
	return r == 0 && max_age_ns ? gs_store_finding_expire(store, before, STEP) : r;
}

/* Reports of jobs and findings go when what was measured at their time is gone. */
static int old_reports(struct gs_store *store)
{
	int64_t oldest = 0;
	int r = gs_store_oldest(store, &oldest);

	if (!oldest)
		oldest = INT64_MAX;
	if (r == 0)
		r = gs_store_report_expire(store, oldest, STEP);
	return r == 0 ? gs_store_finding_expire(store, oldest, STEP) : r;
}

static int too_much(struct gs_head *h, uint64_t max_bytes, struct gs_store *store)
{
	int r;

	if (!max_bytes || gs_store_used_bytes(store) <= max_bytes) {
		h->reported_over = false;
		return 0;
	}
	r = gs_store_expire(store, INT64_MAX, STEP);
	if (r == 0)
		r = old_reports(store);
	if (r == 0 && !h->reported_over) {
		h->reported_over = true;
		head_log(
			h,
			"more is stored than --retention-bytes (store.retention_bytes) allows, and sessions cover all of it: `gpuscope session delete` sessions that are not needed");
	}
	return r;
}

static void expire_data(void *ctx, struct gs_store *store)
{
	struct gs_head *h = ctx;
	uint64_t began = gs_clock_mono_ns(), n = 0;
	struct gs_head_retention retention;
	int r = 0;

	head_kept(h, &retention);
	while (store && gs_clock_mono_ns() - began < WORK_NS) {
		r = too_old(retention.max_age_ns, store);
		if (r == 0)
			r = too_much(h, retention.max_bytes, store);
		if (r <= 0)
			break;
		n += (uint64_t)r;
	}
	if (r < 0)
		head_log(h, "cannot remove expired data: %s", gs_store_trouble(store));
	if (n)
		gs_log(GS_LOG_INFO, GS_LOG_HEAD,
		       "store: %llu batches beyond the retention removed in %.1f ms",
		       (unsigned long long)n, (double)(gs_clock_mono_ns() - began) / 1e6);
	pthread_mutex_lock(&h->lock);
	h->stats.expired_batches += n;
	h->expiring = false;
	h->more_to_expire = r > 0;
	pthread_mutex_unlock(&h->lock);
}

void head_keep(struct gs_head *h)
{
	uint64_t now = gs_clock_mono_ns();
	bool begin;

	pthread_mutex_lock(&h->lock);
	begin = (h->o.retention.max_age_ns || h->o.retention.max_bytes) && !h->expiring &&
		(now >= h->next_expire_ns ||
		 (h->more_to_expire && now + EVERY_NS >= h->next_expire_ns + AGAIN_NS));
	h->expiring |= begin;
	pthread_mutex_unlock(&h->lock);
	if (!begin)
		return;
	h->next_expire_ns = now + EVERY_NS;
	if (gs_head_write(h, expire_data, h) < 0) {
		pthread_mutex_lock(&h->lock);
		h->expiring = false;
		pthread_mutex_unlock(&h->lock);
	}
}
