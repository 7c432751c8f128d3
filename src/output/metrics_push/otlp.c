/*
 * opentelemetry.proto.collector.metrics.v1.ExportMetricsServiceRequest (opentelemetry-proto 1.x):
 *
 *   Request         { repeated ResourceMetrics resource_metrics = 1; }
 *   ResourceMetrics { Resource resource = 1; repeated ScopeMetrics scope_metrics = 2; }
 *   Resource        { repeated KeyValue attributes = 1; }
 *   ScopeMetrics    { InstrumentationScope scope = 1; repeated Metric metrics = 2; }
 *   Scope           { string name = 1; string version = 2; }
 *   Metric          { string name = 1, description = 2, unit = 3; Gauge gauge = 5; Sum sum = 7; }
 *   Gauge           { repeated NumberDataPoint data_points = 1; }
 *   Sum             { repeated NumberDataPoint data_points = 1;
 *                     AggregationTemporality aggregation_temporality = 2; bool is_monotonic = 3; }
 *   NumberDataPoint { fixed64 start_time_unix_nano = 2; fixed64 time_unix_nano = 3;
 *                     double as_double = 4; repeated KeyValue attributes = 7; }
 *   KeyValue        { string key = 1; AnyValue value = 2; }
 *   AnyValue        { string string_value = 1; }
 *
 * Lengths of what contains all the rest are not known before its end: five bytes are kept for them,
 * which every reader takes.
 */
#include "output/metrics_push/push_int.h"

#include <errno.h>
#include <string.h>

#include "core/text/pb.h"

#define CUMULATIVE 2

/* --- lengths that are known late --- */

static int open_late(struct gs_buf *out, uint8_t tag, size_t *ret_at)
{
	uint8_t head[6] = {tag};

	*ret_at = out->bytes + sizeof(head);
	return gs_buf_put(out, head, sizeof(head));
}

static void close_late(struct gs_buf *out, size_t at)
{
	size_t n = out->bytes - at;

	for (size_t i = 0; i < 5; i++, n >>= 7)
		out->data[at - 5 + i] = (uint8_t)((n & 0x7f) | (i < 4 ? 0x80 : 0));
}

/* --- parts --- */

static void put_attribute(struct gs_pb *pb, uint32_t field, const char *name, const char *value)
{
	uint8_t *pair = gs_pb_open(pb, field, GS_PB_LARGE), *any;

	gs_pb_text(pb, 1, name, SIZE_MAX);
	any = gs_pb_open(pb, 2, GS_PB_LARGE);
	gs_pb_text(pb, 1, value, SIZE_MAX);
	gs_pb_close(pb, any, GS_PB_LARGE);
	gs_pb_close(pb, pair, GS_PB_LARGE);
}

int push_otlp_begin(struct push_message *m)
{
	const struct gs_push_options *o = m->options;
	size_t need = 256;
	uint8_t *resource, *scope;
	struct gs_pb pb;
	int r = open_late(&m->out, 1 << 3 | GS_PB_LENGTH, &m->resource_at);

	for (size_t i = 0; i < o->n_labels; i++)
		need += 64 + 3 * (strlen(o->label_name[i]) + strlen(o->label_value[i]));
	if (r == 0)
		r = gs_buf_reserve(&m->out, need);
	if (r < 0)
		return r;
	pb.at = m->out.data + m->out.bytes;
	resource = gs_pb_open(&pb, 1, GS_PB_LARGE);
	put_attribute(&pb, 1, "service.name", "gpuscope");
	for (size_t i = 0; i < o->n_labels; i++) {
		/* As OpenTelemetry calls what Prometheus calls so. */
		const char *name = strcmp(o->label_name[i], "instance") == 0 ? "service.instance.id"
				   : strcmp(o->label_name[i], "job") == 0    ? "service.namespace"
									     : o->label_name[i];

		if (o->label_value[i][0])
			put_attribute(&pb, 1, name, o->label_value[i]);
	}
	gs_pb_close(&pb, resource, GS_PB_LARGE);
	m->out.bytes = (size_t)(pb.at - m->out.data);
	r = open_late(&m->out, 2 << 3 | GS_PB_LENGTH, &m->scope_at);
	if (r == 0)
		r = gs_buf_reserve(&m->out, 128);
	if (r < 0)
		return r;
	pb.at = m->out.data + m->out.bytes;
	scope = gs_pb_open(&pb, 1, GS_PB_SMALL);
	gs_pb_text(&pb, 1, "gpuscope", SIZE_MAX);
	gs_pb_text(&pb, 2, GS_VERSION, SIZE_MAX);
	gs_pb_close(&pb, scope, GS_PB_SMALL);
	m->out.bytes = (size_t)(pb.at - m->out.data);
	return 0;
}

static int close_metric(struct push_message *m)
{
	static const uint8_t sum_end[] = {2 << 3, CUMULATIVE, 3 << 3, 1};
	int r = 0;

	if (!m->is_open)
		return 0;
	if (m->is_sum)
		r = gs_buf_put(&m->out, sum_end, sizeof(sum_end));
	close_late(&m->out, m->data_at);
	close_late(&m->out, m->metric_at);
	m->is_open = false;
	return r;
}

/* A counter is called as its family, without "_total": that is Prometheus's own. */
static int open_metric(struct push_message *m, const struct gs_metrics_sample *s)
{
	const char *name = s->kind == GS_METRICS_COUNTER ? s->family : s->name;
	struct gs_pb pb;
	int r = close_metric(m);

	if (r == 0)
		r = open_late(&m->out, 2 << 3 | GS_PB_LENGTH, &m->metric_at);
	if (r == 0)
		r = gs_buf_reserve(&m->out,
				   64 + 3 * (strlen(name) + strlen(s->help) + strlen(s->unit)));
	if (r < 0)
		return r;
	pb.at = m->out.data + m->out.bytes;
	gs_pb_text(&pb, 1, name, SIZE_MAX);
	if (s->help[0])
		gs_pb_text(&pb, 2, s->help, SIZE_MAX);
	if (s->unit[0])
		gs_pb_text(&pb, 3, s->unit, SIZE_MAX);
	m->out.bytes = (size_t)(pb.at - m->out.data);
	m->is_open = true;
	m->is_sum = s->kind == GS_METRICS_COUNTER || s->kind == GS_METRICS_BARE;
	return open_late(&m->out, (m->is_sum ? 7 : 5) << 3 | GS_PB_LENGTH, &m->data_at);
}

int push_otlp_put(void *message, const struct gs_metrics_sample *sample)
{
	struct push_message *m = message;
	int64_t time_ms = sample->time_ms ? sample->time_ms : m->now_ms;
	size_t need = 64;
	uint64_t bits;
	uint8_t *point;
	struct gs_pb pb;
	int r = 0;

	if (sample->first)
		r = open_metric(m, sample);
	for (size_t i = 0; i < sample->n_labels; i++)
		need += 64 + 3 * (strlen(sample->label[i].name) + strlen(sample->label[i].value));
	if (r == 0)
		r = gs_buf_reserve(&m->out, need);
	if (r < 0)
		return r;
	pb.at = m->out.data + m->out.bytes;
	point = gs_pb_open(&pb, 1, GS_PB_LARGE);
	if (m->is_sum)
		gs_pb_fixed64(&pb, 2, (uint64_t)m->start_ms * 1000000);
	gs_pb_fixed64(&pb, 3, (uint64_t)time_ms * 1000000);
	memcpy(&bits, &sample->value, sizeof(bits));
	gs_pb_fixed64(&pb, 4, bits);
	for (size_t i = 0; i < sample->n_labels; i++)
		put_attribute(&pb, 7, sample->label[i].name, sample->label[i].value);
	gs_pb_close(&pb, point, GS_PB_LARGE);
	m->out.bytes = (size_t)(pb.at - m->out.data);
	m->n_samples++;
	return 0;
}

int push_otlp_end(struct push_message *m)
{
	int r = close_metric(m);

	close_late(&m->out, m->scope_at);
	close_late(&m->out, m->resource_at);
	return r;
}
