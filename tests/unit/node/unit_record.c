/* Moments as records and back: everything, whatever is missing, and what is damaged. */
#include <errno.h>
#include <malloc.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "../tui/sample.h"
#include "model/node/record.h"

/* Decodes all of buf; how many moments there were, the last of them in *ret. */
static int decode_all(const struct gs_buf *buf, struct gs_node_snapshot **ret, uint64_t *ret_torn)
{
	struct gs_node_decoder *d = gs_node_decoder_new();
	struct gs_batch batch = {buf->data, buf->bytes};
	int n = 0;

	*ret = NULL;
	gs_records_for_each (&batch, r) {
		struct gs_node_snapshot *node = NULL;
		int e = gs_node_decode(d, r, &node);

		assert_true(e >= 0);
		if (e != GS_NODE_WHOLE)
			continue;
		gs_node_snapshot_free(ret);
		*ret = node;
		n++;
	}
	if (ret_torn)
		*ret_torn = gs_node_decoder_torn(d);
	gs_node_decoder_free(&d);
	return n;
}

static struct gs_node_snapshot *rich(void)
{
	struct gs_node_snapshot *n = sample_node(3, 5, 7);
	struct gs_gpu_sample *s = &n->gpu->sample[1];

	n->gpu->n_events = 2;
	n->gpu->event = calloc(2, sizeof(*n->gpu->event));
	for (uint32_t i = 0; i < 2; i++) {
		n->gpu->event[i].time_ns = 5 + i;
		n->gpu->event[i].xid = 79 + i;
		n->gpu->event[i].source = 3;
		strcpy(n->gpu->event[i].text, "fell off");
	}
	s->n_links = 2;
	s->link[1] = (struct gs_gpu_link){.present = 1, .up = 1, .have_bytes = 1, .tx_bytes = 77};
	strcpy(s->link[1].remote_bus_id, "00000000:3B:00.0");
	s->part_ns[GS_GPU_PART_UTILIZATION] = s->time_ns - 2500000;
	s->part_ns[GS_GPU_PART_TEMPERATURE] = s->time_ns + 1000; /* read after it began */
	s->why[GS_GPU_FAN] = GS_GPU_REASON_NOT_READ;
	s->why[GS_GPU_ENERGY] = GS_GPU_REASON_TIMED_OUT;
	n->gpu->state = GS_GPU_STATE_HUNG;
	strcpy(n->gpu->state_text, "a call hangs");
	n->gpu->missed_samples = 3;
	strcpy(n->host->process[2].container, "0123456789abcdef");
	strcpy(n->host->process[2].job, "4711");
	memset(n->host->process[3].cmdline, 'x', sizeof(n->host->process[3].cmdline) - 1);
	sample_jobs(n, 4);
	memset(n->host->process[3].comm, 'y', sizeof(n->host->process[3].comm) - 1);
	return n;
}

/* Not byte by byte: what lies between the members is anything. */
static void is_same_link(const struct gs_gpu_link *a, const struct gs_gpu_link *b)
{
	assert_int_equal(a->present, b->present);
	assert_int_equal(a->up, b->up);
	assert_int_equal(a->version, b->version);
	assert_int_equal(a->have_bytes, b->have_bytes);
	assert_int_equal(a->have_errors, b->have_errors);
	assert_int_equal(a->tx_bytes, b->tx_bytes);
	assert_int_equal(a->rx_bytes, b->rx_bytes);
	assert_int_equal(a->crc_errors, b->crc_errors);
	assert_int_equal(a->replay_errors, b->replay_errors);
	assert_int_equal(a->recovery_errors, b->recovery_errors);
	assert_string_equal(a->remote_bus_id, b->remote_bus_id);
	assert_int_equal(a->have_counts, b->have_counts);
	assert_memory_equal(a->count, b->count, sizeof(a->count));
}

static void there_and_back(void **state)
{
	struct gs_node_snapshot *n = rich(), *m;
	struct gs_buf buf = GS_BUF_INIT(1u << 20);
	uint64_t torn;

	assert_int_equal(gs_node_encode(&buf, n), 0);
	assert_int_equal(gs_node_encode(&buf, n), 0);
	assert_int_equal(decode_all(&buf, &m, &torn), 2);
	assert_int_equal(torn, 0);
	assert_string_equal(m->name, n->name);
	assert_int_equal(m->time_ns, n->time_ns);
	assert_int_equal(m->wall_ns, n->wall_ns);
	assert_memory_equal(&m->host->sample, &n->host->sample, sizeof(m->host->sample));
	assert_int_equal(m->host->n_processes, 5);
	assert_memory_equal(m->host->process, n->host->process, 5 * sizeof(*m->host->process));
	assert_non_null(m->jobs);
	assert_int_equal(m->jobs->n_accounts, 4);
	assert_true(m->jobs->probes);
	/* Ages of values are kept in ms. */
	assert_int_equal(m->gpu->sample[1].part_ns[GS_GPU_PART_UTILIZATION],
			 n->gpu->sample[1].time_ns - 2000000);
	assert_int_equal(m->gpu->sample[1].part_ns[GS_GPU_PART_TEMPERATURE],
			 n->gpu->sample[1].time_ns);
	/* Totals are not kept; everything else is. */
	for (uint32_t i = 0; i < 4; i++) {
		const struct gs_job_account *a = &m->jobs->account[i], *b = &n->jobs->account[i];

		assert_string_equal(a->job.id, b->job.id);
		assert_string_equal(a->job.name, b->job.name);
		assert_string_equal(a->job.account, b->job.account);
		assert_string_equal(a->job_class, b->job_class);
		assert_int_equal(a->job.kind, b->job.kind);
		assert_int_equal(a->job.limit_s, b->job.limit_s);
		assert_int_equal(a->n_processes, b->n_processes);
		assert_int_equal(a->memory_bytes, b->memory_bytes);
		assert_int_equal(a->gpu_memory_bytes, b->gpu_memory_bytes);
		assert_int_equal(a->gpu_mask, b->gpu_mask);
		assert_int_equal(a->gpus_idle, b->gpus_idle);
		assert_true(i == 3 ? isnan(a->cpus) && isnan(a->score) && isnan(a->gpu_ratio)
				   : a->cpus == b->cpus && a->score == b->score &&
					     a->gpu_ratio == b->gpu_ratio &&
					     a->io_bps == b->io_bps && a->net_bps == b->net_bps);
	}
	assert_int_equal(m->gpu->n_gpus, 3);
	assert_memory_equal(m->gpu->info, n->gpu->info, 3 * sizeof(*m->gpu->info));
	assert_int_equal(m->gpu->n_processes, 5);
	assert_memory_equal(m->gpu->process, n->gpu->process, 5 * sizeof(*m->gpu->process));
	assert_int_equal(m->gpu->n_events, 2);
	assert_memory_equal(m->gpu->event, n->gpu->event, 2 * sizeof(*m->gpu->event));
	assert_int_equal(m->gpu->state, GS_GPU_STATE_HUNG);
	assert_string_equal(m->gpu->state_text, "a call hangs");
	assert_int_equal(m->gpu->missed_samples, 3);
	for (uint32_t i = 0; i < 3; i++) {
		const struct gs_gpu_sample *a = &m->gpu->sample[i], *b = &n->gpu->sample[i];

		assert_memory_equal(a->why, b->why, sizeof(a->why));
		for (unsigned f = 0; f < GS_GPU_FIELD_COUNT; f++)
			if (b->why[f] == GS_GPU_REASON_OK)
				assert_true(a->value[f] == b->value[f]);
		assert_int_equal(a->n_links, b->n_links);
		for (unsigned l = 0; l < GS_GPU_LINK_MAX; l++)
			is_same_link(&a->link[l], &b->link[l]);
		assert_int_equal(a->time_ns, b->time_ns);
	}
	gs_node_snapshot_free(&n);
	gs_node_snapshot_free(&m);
	gs_buf_fini(&buf);
}

static void set_process(struct gs_job_process *p, const struct gs_host_process *of,
			int64_t later_ns)
{
	*p = (struct gs_job_process){.pid = of->pid, .start_ns = of->start_ns + (uint64_t)later_ns};
	for (unsigned i = 0; i < GS_TASKSTATS_PARTS; i++)
		p->part_ns[i] = of->pid * 1000ull + i;
}

/* Of the processes that go along, those of jobs; the kernel knows their start more exactly than /proc. */
static void times_of_processes(void **state)
{
	struct gs_node_snapshot *n = rich(), *m;
	const struct gs_host_process *h = n->host->process;
	struct gs_buf buf = GS_BUF_INIT(1u << 20), wrong = GS_BUF_INIT(1u << 20);
	const struct gs_job_process *p;
	uint64_t torn;

	for (int i = 0; i < 5; i++)
		n->host->process[i].start_ns = 1000000000;
	n->times = calloc(3, sizeof(*n->times));
	n->n_times = 3;
	set_process(&n->times[0], &h[1], 3000000);
	set_process(&n->times[1], &h[2], 500000000); /* another one of that number */
	set_process(&n->times[2], &h[4], -3000000);
	assert_int_equal(gs_node_encode(&buf, n), 0);
	assert_int_equal(decode_all(&buf, &m, &torn), 1);
	assert_int_equal(torn, 0);
	assert_int_equal(m->n_times, 2);
	for (int i = 0; i < 5; i++) {
		p = gs_node_process_times(m, &h[i]);
		assert_int_equal(p != NULL, i == 1 || i == 4);
		if (p)
			assert_int_equal(p->part_ns[GS_TASKSTATS_PARTS - 1],
					 h[i].pid * 1000ull + GS_TASKSTATS_PARTS - 1);
	}
	/* Twice the same one is a lie. */
	gs_records_for_each (&((struct gs_batch){buf.data, buf.bytes}), r) {
		assert_int_equal(gs_buf_put(&wrong, r, r->bytes), 0);
		if (r->kind == GS_REC_HOST_TIMES)
			assert_int_equal(gs_buf_put(&wrong, r, r->bytes), 0);
	}
	gs_node_snapshot_free(&m);
	assert_int_equal(decode_all(&wrong, &m, &torn), 0);
	assert_int_equal(torn, 1);
	gs_node_snapshot_free(&n);
	gs_buf_fini(&buf);
	gs_buf_fini(&wrong);
}

/* A head holds a moment of each of its nodes: no more than what is in it. */
static void a_moment_takes_what_it_needs(void **state)
{
	struct gs_node_snapshot *n = rich(), *m;
	struct gs_buf buf = GS_BUF_INIT(1u << 20);
	const size_t spare = 64;

	assert_int_equal(gs_node_encode(&buf, n), 0);
	assert_int_equal(decode_all(&buf, &m, NULL), 1);
	assert_in_range(malloc_usable_size(m->gpu->sample), 3 * sizeof(*m->gpu->sample),
			3 * sizeof(*m->gpu->sample) + spare);
	assert_in_range(malloc_usable_size(m->gpu->info), 3 * sizeof(*m->gpu->info),
			3 * sizeof(*m->gpu->info) + spare);
	assert_in_range(malloc_usable_size(m->gpu->process), 5 * sizeof(*m->gpu->process),
			5 * sizeof(*m->gpu->process) + spare);
	assert_in_range(malloc_usable_size(m->host->process), 5 * sizeof(*m->host->process),
			5 * sizeof(*m->host->process) + spare);
	gs_node_snapshot_free(&n);
	gs_node_snapshot_free(&m);
	gs_buf_fini(&buf);
}

static void keys_have_their_own_hashes(void **state)
{
	for (unsigned a = 0; a < GS_GPU_FIELD_COUNT; a++) {
		assert_int_not_equal(gs_gpu_key_hash(gs_gpu_field_info(a)->key), 0);
		for (unsigned b = 0; b < a; b++)
			assert_int_not_equal(gs_gpu_key_hash(gs_gpu_field_info(a)->key),
					     gs_gpu_key_hash(gs_gpu_field_info(b)->key));
	}
	/* Stored in files: the function must not change. */
	assert_int_equal(gs_gpu_key_hash("utilization_ratio"), 0xb354e093u);
}

static void nothing_at_all(void **state)
{
	struct gs_node_snapshot *n = sample_node(0, 0, 0), *m;
	struct gs_buf buf = GS_BUF_INIT(1u << 20);

	assert_int_equal(gs_node_encode(&buf, n), 0);
	assert_int_equal(decode_all(&buf, &m, NULL), 1);
	assert_int_equal(m->gpu->n_gpus + m->host->n_processes + m->gpu->n_processes, 0);
	gs_node_snapshot_free(&n);
	gs_node_snapshot_free(&m);
	gs_buf_fini(&buf);
}

/* Any one record missing: that moment is given up and counted, the next one is whole. */
static void a_record_is_missing(void **state)
{
	struct gs_node_snapshot *n = rich(), *m;
	struct gs_buf one = GS_BUF_INIT(1u << 20);
	struct gs_batch batch;
	int n_records = 0;

	assert_int_equal(gs_node_encode(&one, n), 0);
	batch = (struct gs_batch){one.data, one.bytes};
	gs_records_for_each (&batch, r)
		n_records++;
	assert_int_equal(n_records, 1 + 3 + 3 + 5 + 2 + 5 + 4);
	for (int skip = 0; skip < n_records; skip++) {
		struct gs_buf buf = GS_BUF_INIT(1u << 20);
		uint64_t torn;
		int i = 0;

		gs_records_for_each (&batch, r)
			if (i++ != skip)
				assert_int_equal(gs_buf_put(&buf, r, r->bytes), 0);
		assert_int_equal(gs_buf_put(&buf, one.data, one.bytes), 0);
		assert_int_equal(decode_all(&buf, &m, &torn), 1);
		/* Without its head the rest is passed over: nothing says that there was a moment.
		 */
		assert_int_equal(torn, skip ? 1 : 0);
		assert_int_equal(m->host->n_processes, 5);
		gs_node_snapshot_free(&m);
		gs_buf_fini(&buf);
	}
	gs_node_snapshot_free(&n);
	gs_buf_fini(&one);
}

static void values_that_are_none(void **state)
{
	struct gs_node_snapshot *n = sample_node(1, 1, 0), *m;
	struct gs_buf buf = GS_BUF_INIT(1u << 20);

	gs_gpu_set(&n->gpu->sample[0], GS_GPU_UTIL, NAN);
	gs_gpu_set(&n->gpu->sample[0], GS_GPU_POWER, INFINITY);
	gs_gpu_set(&n->gpu->sample[0], GS_GPU_TEMP_GPU, -1e300);
	n->host->sample.cpu_ratio = NAN;
	n->gpu->process[0].sm_ratio = 1e300;
	n->host->process[0].rss_bytes = INT64_MIN;
	assert_int_equal(gs_node_encode(&buf, n), 0);
	assert_int_equal(decode_all(&buf, &m, NULL), 1);
	assert_int_equal(m->gpu->sample[0].why[GS_GPU_UTIL], GS_GPU_REASON_FAILED);
	assert_int_equal(m->gpu->sample[0].why[GS_GPU_POWER], GS_GPU_REASON_FAILED);
	assert_int_equal(m->gpu->sample[0].why[GS_GPU_TEMP_GPU], GS_GPU_REASON_FAILED);
	assert_true(m->host->sample.cpu_ratio == -1);
	assert_true(m->gpu->process[0].sm_ratio == -1);
	assert_int_equal(m->host->process[0].rss_bytes, -1);
	gs_node_snapshot_free(&n);
	gs_node_snapshot_free(&m);
	gs_buf_fini(&buf);
}

static void full_buffer(void **state)
{
	struct gs_node_snapshot *n = rich();
	struct gs_buf buf = GS_BUF_INIT(5000);

	assert_int_equal(gs_node_encode(&buf, n), -ENOBUFS);
	assert_int_equal(buf.bytes, 0);
	gs_node_snapshot_free(&n);
	gs_buf_fini(&buf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(there_and_back),
		cmocka_unit_test(times_of_processes),
		cmocka_unit_test(a_moment_takes_what_it_needs),
		cmocka_unit_test(keys_have_their_own_hashes),
		cmocka_unit_test(nothing_at_all),
		cmocka_unit_test(a_record_is_missing),
		cmocka_unit_test(values_that_are_none),
		cmocka_unit_test(full_buffer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
