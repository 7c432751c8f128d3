/*
 * Metrics as opentelemetry.proto.collector.metrics.v1.ExportMetricsServiceRequest, and logs as
 * opentelemetry.proto.collector.logs.v1.ExportLogsServiceRequest (opentelemetry-proto 1.x), inside of
 * what core/text/otlp.h has of both:
 *
 *   Metric          { string name = 1, description = 2, unit = 3; Gauge gauge = 5; Sum sum = 7; }
 *   Gauge           { repeated NumberDataPoint data_points = 1; }
 *   Sum             { repeated NumberDataPoint data_points = 1;
 *                     AggregationTemporality aggregation_temporality = 2; bool is_monotonic = 3; }
 *   NumberDataPoint { fixed64 start_time_unix_nano = 2; fixed64 time_unix_nano = 3;
 *                     double as_double = 4; repeated KeyValue attributes = 7; }
 *   LogRecord       { fixed64 time_unix_nano = 1; SeverityNumber severity_number = 2;
 *                     string severity_text = 3; AnyValue body = 5; repeated KeyValue attributes = 6;
 *                     fixed64 observed_time_unix_nano = 11; string event_name = 12; }
 *
 * What a receiver answers, of all of them: { PartialSuccess { int64 rejected = 1;
 * string error_message = 2; } = 1; }, and of an error over HTTP google.rpc.Status { int32 code = 1;
 * string message = 2; }.
 */
#include "output/metrics_push/push_int.h"

#include <errno.h>
#include <string.h>

#include "core/text/otlp.h"

#define CUMULATIVE 2

/* As OpenTelemetry calls what Prometheus calls so. */
static const char *name_of(const char *label)
{
	return strcmp(label, "instance") == 0 ? "service.instance.id"
	       : strcmp(label, "job") == 0    ? "service.namespace"
					      : label;
}

int push_otlp_begin(struct push_message *m)
{
	const struct gs_push_options *o = m->options;
	struct gs_otlp_label labels[GS_PUSH_LABELS_MAX];

	for (size_t i = 0; i < o->n_labels; i++)
		labels[i] = (struct gs_otlp_label){name_of(o->label_name[i]), o->label_value[i]};
	return gs_otlp_begin(&m->out, labels, o->n_labels, &m->otlp);
}

/* Units of the Unified Code for Units of Measure, as OpenTelemetry has them. */
static const char *unit_of(const char *unit)
{
	static const char *const units[][2] = {
		{"ratio", "1"},  {"bytes", "By"}, {"celsius", "Cel"}, {"watts", "W"},
		{"joules", "J"}, {"hertz", "Hz"}, {"seconds", "s"},   {"bytes_per_second", "By/s"}};

	for (size_t i = 0; i < GS_ARRAY_LEN(units); i++)
		if (strcmp(unit, units[i][0]) == 0)
			return units[i][1];
	return unit;
}

static int close_metric(struct push_message *m)
{
	const uint8_t sum_end[] = {2 << 3, CUMULATIVE, 3 << 3, m->is_monotonic};
	int r = 0;

	if (!m->is_open)
		return 0;
	if (m->is_sum)
		r = gs_buf_put(&m->out, sum_end, sizeof(sum_end));
	gs_otlp_close(&m->out, m->data_at);
	gs_otlp_close(&m->out, m->metric_at);
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
		r = gs_otlp_open(&m->out, GS_OTLP_ITEM, &m->metric_at);
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
		gs_pb_text(&pb, 3, unit_of(s->unit), SIZE_MAX);
	m->out.bytes = (size_t)(pb.at - m->out.data);
	m->is_open = true;
	m->is_monotonic = s->kind == GS_METRICS_COUNTER || s->kind == GS_METRICS_BARE;
	m->is_sum = m->is_monotonic || s->kind == GS_METRICS_UPDOWN;
	return gs_otlp_open(&m->out, m->is_sum ? 7 : 5, &m->data_at);
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
		gs_otlp_attribute(&pb, 7, sample->label[i].name, sample->label[i].value);
	gs_pb_close(&pb, point, GS_PB_LARGE);
	m->out.bytes = (size_t)(pb.at - m->out.data);
	m->n_samples++;
	return 0;
}

int push_otlp_end(struct push_message *m)
{
	int r = close_metric(m);

	gs_otlp_end(&m->out, &m->otlp);
	return r;
}

int gs_push_log_put(struct push_message *m, const struct gs_push_log *log)
{
	size_t need = 128 + 3 * (strlen(log->event) + strlen(log->body)), at;
	uint8_t *body;
	struct gs_pb pb;
	int r = gs_otlp_open(&m->out, GS_OTLP_ITEM, &at);

	for (size_t i = 0; i < log->n_attributes; i++)
		need += 64 + 3 * (strlen(log->attribute[i].name) + strlen(log->attribute[i].value));
	if (r == 0)
		r = gs_buf_reserve(&m->out, need);
	if (r < 0)
		return r;
	pb.at = m->out.data + m->out.bytes;
	gs_pb_fixed64(&pb, 1, (uint64_t)log->wall_ns);
	gs_pb_uint(&pb, 2, log->severity);
	gs_pb_text(&pb, 3,
		   log->severity >= GS_PUSH_LOG_ERROR  ? "ERROR"
		   : log->severity >= GS_PUSH_LOG_WARN ? "WARN"
						       : "INFO",
		   SIZE_MAX);
	body = gs_pb_open(&pb, 5, GS_PB_LARGE);
	gs_pb_text(&pb, 1, log->body, SIZE_MAX);
	gs_pb_close(&pb, body, GS_PB_LARGE);
	for (size_t i = 0; i < log->n_attributes; i++)
		if (log->attribute[i].value[0])
			gs_otlp_attribute(&pb, 6, log->attribute[i].name, log->attribute[i].value);
	gs_pb_fixed64(&pb, 11, (uint64_t)m->now_ms * 1000000);
	gs_pb_text(&pb, 12, log->event, SIZE_MAX);
	m->out.bytes = (size_t)(pb.at - m->out.data);
	gs_otlp_close(&m->out, at);
	m->n_samples++;
	return 0;
}

/* A varint; false: there is none. */
static bool take_varint(const uint8_t **at, const uint8_t *end, uint64_t *ret)
{
	*ret = 0;
	for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
		uint8_t byte = *(*at)++;

		*ret |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return true;
	}
	return false;
}

/* The fields of a message with one number (1) and one text (2), as both answers are. False: it is
 * none. */
static bool take_answer(const uint8_t *at, const uint8_t *end, uint64_t *ret_number, char *ret_text,
			size_t bytes)
{
	uint64_t tag, value;

	*ret_number = 0;
	ret_text[0] = '\0';
	while (at < end) {
		if (!take_varint(&at, end, &tag) || !take_varint(&at, end, &value))
			return false;
		if (tag == (1 << 3 | GS_PB_VARINT)) {
			*ret_number = value;
		} else if ((tag & 7) == GS_PB_LENGTH && value <= (uint64_t)(end - at)) {
			if (tag >> 3 == 2)
				snprintf(ret_text, bytes, "%.*s",
					 (int)(value < bytes ? value : bytes), (const char *)at);
			at += value;
		} else if ((tag & 7) != GS_PB_VARINT) {
			return false;
		}
	}
	for (char *c = ret_text; *c; c++)
		*c = (unsigned char)*c < 0x20 || *c == 0x7f ? '?' : *c;
	return true;
}

uint64_t push_otlp_rejected(const struct gs_buf *answer, char *ret_why, size_t bytes)
{
	const uint8_t *at = answer->data, *end = at ? at + answer->bytes : at;
	uint64_t tag, n, rejected;

	ret_why[0] = '\0';
	if (!at || !take_varint(&at, end, &tag) || tag != (1 << 3 | GS_PB_LENGTH) ||
	    !take_varint(&at, end, &n) || n > (uint64_t)(end - at))
		return 0;
	return take_answer(at, at + n, &rejected, ret_why, bytes) ? rejected : 0;
}

bool push_otlp_error(const struct gs_buf *answer, char *ret_text, size_t bytes)
{
	uint64_t code;

	return answer->bytes &&
	       take_answer(answer->data, answer->data + answer->bytes, &code, ret_text, bytes) &&
	       ret_text[0];
}
