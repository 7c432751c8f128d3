/* Sums of traffic: plain arithmetic. */
#include "model/node/traffic.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/mem.h"

void gs_traffic_list_fini(struct gs_traffic_list *list)
{
	gs_free_p(&list->peer);
	gs_free_p(&list->service);
	list->n_peers = list->n_services = 0;
}

void gs_traffic_growth_fini(struct gs_traffic_growth *growth)
{
	gs_free_p(&growth->asker);
	growth->n_askers = 0;
}

void gs_traffic_sums_add(struct gs_traffic_sums *a, const struct gs_traffic_sums *b)
{
	a->connections += b->connections;
	a->failed += b->failed;
	a->open += b->open;
	a->received_bytes += b->received_bytes;
	a->sent_bytes += b->sent_bytes;
	a->sends += b->sends;
	a->requests += b->requests;
	a->answers += b->answers;
	a->answer_ns += b->answer_ns;
	for (int i = 0; i < GS_TRAFFIC_BUCKETS; i++)
		a->answer_log2[i] += b->answer_log2[i];
}

struct gs_traffic_sums gs_traffic_sums_since(const struct gs_traffic_sums *a,
					     const struct gs_traffic_sums *b)
{
	struct gs_traffic_sums d = *a;

	d.connections -= b->connections;
	d.failed -= b->failed;
	d.open -= b->open;
	d.received_bytes -= b->received_bytes;
	d.sent_bytes -= b->sent_bytes;
	d.sends -= b->sends;
	d.requests -= b->requests;
	d.answers -= b->answers;
	d.answer_ns -= b->answer_ns;
	for (int i = 0; i < GS_TRAFFIC_BUCKETS; i++)
		d.answer_log2[i] -= b->answer_log2[i];
	return d;
}

double gs_traffic_quantile(const struct gs_traffic_sums *s, double share)
{
	uint64_t n = 0, all = 0;

	for (int i = 0; i < GS_TRAFFIC_BUCKETS; i++)
		all += s->answer_log2[i];
	for (int i = 0; i < GS_TRAFFIC_BUCKETS && all; i++) {
		n += s->answer_log2[i];
		if ((double)n >= share * (double)all)
			return ldexp(1e-6, i);
	}
	return NAN;
}
