/* The head in numbers, for Prometheus and for who is pushed to. */
#include <stdlib.h>
#include <string.h>

#include "analysis/fleet/fleet.h"
#include "server/finding/finding.h"
#include "server/head/head_int.h"

static void put_cluster(struct gs_metrics *p, struct gs_registry *c)
{
	struct gs_registry_view *view = gs_registry_view(c);
	size_t n = gs_registry_view_count(view);
	uint64_t healthy = 0, lost = 0, missed = 0, events = 0;

	if (!view)
		return; /* no memory: other figures are exported */
	for (size_t i = 0; i < n; i++) {
		const struct gs_registry_node *node = gs_registry_view_at(view, i);

		healthy += node->healthy;
		lost += node->lost_samples;
		missed += node->missed_samples;
		events += node->n_gpu_events;
	}
	gs_registry_view_unref(&view);
	gs_metrics_one(p, "gpuscope_head_nodes", GS_METRICS_GAUGE, (double)n,
		       "Nodes that ever sent data.");
	gs_metrics_one(p, "gpuscope_head_nodes_healthy", GS_METRICS_GAUGE, (double)healthy,
		       "Nodes that are connected and send data.");
	gs_metrics_one(p, "gpuscope_head_samples_lost", GS_METRICS_COUNTER, (double)lost,
		       "Samples that nodes dropped before they could deliver them.");
	gs_metrics_one(p, "gpuscope_head_samples_missed", GS_METRICS_COUNTER, (double)missed,
		       "Samples that nodes missed because they were too late.");
	gs_metrics_one(p, "gpuscope_head_gpu_events", GS_METRICS_COUNTER, (double)events,
		       "GPU errors (XID) that nodes reported.");
}

static void put_head(struct gs_metrics *p, const struct gs_head_stats *s)
{
	gs_metrics_one(p, "gpuscope_head_batches", GS_METRICS_COUNTER, (double)s->batches,
		       "Batches stored.");
	gs_metrics_one(p, "gpuscope_head_samples", GS_METRICS_COUNTER, (double)s->samples,
		       "Samples stored.");
	gs_metrics_one(p, "gpuscope_head_stored_bytes", GS_METRICS_COUNTER, (double)s->bytes,
		       "Compressed bytes of stored batches.");
	gs_metrics_one(p, "gpuscope_head_batches_duplicate", GS_METRICS_COUNTER,
		       (double)s->duplicates, "Batches that arrived twice and were dropped.");
	gs_metrics_one(p, "gpuscope_head_batches_refused", GS_METRICS_COUNTER, (double)s->refused,
		       "Malformed batches that were refused.");
	gs_metrics_one(p, "gpuscope_head_batches_waiting", GS_METRICS_GAUGE,
		       (double)s->waiting_batches, "Batches received and not stored yet.");
	gs_metrics_one(p, "gpuscope_head_waiting_bytes", GS_METRICS_GAUGE, (double)s->waiting_bytes,
		       "Bytes of batches received and not stored yet.");
	gs_metrics_one(p, "gpuscope_head_streams_paused", GS_METRICS_GAUGE,
		       (double)s->paused_streams,
		       "Streams of nodes that are not read while the queue is full.");
	gs_metrics_one(p, "gpuscope_head_commits", GS_METRICS_COUNTER, (double)s->commits,
		       "Transactions of the store.");
	gs_metrics_one(p, "gpuscope_head_commit_seconds", GS_METRICS_COUNTER,
		       (double)s->commit_ns / 1e9, "Time that transactions of the store took.");
	gs_metrics_one(
		p, "gpuscope_head_latency_seconds", GS_METRICS_GAUGE, (double)s->latency_ns / 1e9,
		"Time from receiving a batch until it was on disk, in the last transaction.");
	gs_metrics_one(p, "gpuscope_head_expired_batches", GS_METRICS_COUNTER,
		       (double)s->expired_batches, "Batches removed by retention.");
	gs_metrics_one(p, "gpuscope_head_store_failing", GS_METRICS_GAUGE, s->trouble[0] != 0,
		       "1 while the head cannot store data.");
}

static void put_coarse(struct gs_metrics *p, const struct gs_head_stats *s)
{
	static const char *const when[] = {"before", "after"};
	const uint64_t values[][2] = {
		{s->coarse_batches_before, s->coarse_batches_after},
		{s->coarse_samples_before, s->coarse_samples_after},
		{s->coarse_bytes_before, s->coarse_bytes_after},
	};
	static const struct {
		const char *name, *unit, *help;
	} families[] = {
		{"gpuscope_head_downsampled_batches", "",
		 "Batches that were downsampled (before), and their replacements (after)."},
		{"gpuscope_head_downsampled_samples", "",
		 "Samples in downsampled batches (before) and their replacements (after)."},
		{"gpuscope_head_downsampled_bytes", "bytes",
		 "Compressed bytes of downsampled batches (before) and their replacements (after)."},
	};

	for (unsigned f = 0; f < GS_ARRAY_LEN(families); f++) {
		gs_metrics_family(p, families[f].name, GS_METRICS_COUNTER, families[f].unit,
				  families[f].help);
		for (unsigned i = 0; i < 2; i++) {
			struct gs_metrics_label l = {"when", when[i]};

			gs_metrics_line(p, "", &l, 1, (double)values[f][i], 0);
		}
	}
	gs_metrics_one(p, "gpuscope_head_downsample_damaged", GS_METRICS_COUNTER,
		       (double)s->coarse_damaged,
		       "Batches that could not be read for downsampling and stay as they are.");
}

static void put_fleet(struct gs_metrics *p, struct gs_head *head, const struct gs_fleet_counts *c)
{
	gs_finding_begin_metric(p);
	gs_head_holding(head, gs_finding_put_metric, p);
	gs_metrics_one(p, "gpuscope_head_ranks", GS_METRICS_GAUGE, c->n_ranks,
		       "Ranks of traced jobs that are compared over nodes.");
	gs_metrics_one(p, "gpuscope_head_findings", GS_METRICS_GAUGE, c->n_holding,
		       "Late ranks, hangs, mismatches and slowdowns over nodes that hold now.");
	gs_metrics_one(p, "gpuscope_head_ranks_left_out", GS_METRICS_COUNTER, (double)c->n_left_out,
		       "Records of ranks, and findings, that found no place.");
}

void gs_head_metrics(struct gs_head *head, struct gs_metrics *p)
{
	struct gs_store_session *active = NULL;
	struct gs_fleet_counts ranks;
	struct gs_head_stats stats;
	size_t n_active = 0;

	gs_head_stats(head, &stats);
	(void)gs_head_active(head, &active, &n_active);
	free(active);
	put_cluster(p, head->cluster);
	put_head(p, &stats);
	put_coarse(p, &stats);
	head_fleet_counts(head, &ranks);
	put_fleet(p, head, &ranks);
	gs_metrics_one(p, "gpuscope_head_sessions_active", GS_METRICS_GAUGE, (double)n_active,
		       "Active sessions.");
	pthread_mutex_lock(&head->push_lock);
	gs_push_set_metrics(p, head->push, "gpuscope_head");
	pthread_mutex_unlock(&head->push_lock);
}
