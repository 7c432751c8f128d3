/*
 * prometheus.WriteRequest (prometheus.io/docs/specs/remote_write_spec, version 1.0):
 *
 *   WriteRequest { repeated TimeSeries timeseries = 1; }
 *   TimeSeries   { repeated Label labels = 1; repeated Sample samples = 2; }
 *   Label        { string name = 1; string value = 2; }
 *   Sample       { double value = 1; int64 timestamp = 2; }  // ms
 *
 * Labels stand sorted by name, __name__ among them; none has an empty value.
 */
#include "output/metrics_push/push_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/text/pb.h"

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct gs_metrics_label *)a)->name,
		      ((const struct gs_metrics_label *)b)->name);
}

/* Own labels win over those put on everything. */
static size_t all_labels(const struct push_message *m, const struct gs_metrics_sample *s,
			 struct gs_metrics_label *out)
{
	const struct gs_push_options *o = m->options;
	size_t n = 0;

	out[n++] = (struct gs_metrics_label){"__name__", s->name};
	for (size_t i = 0; i < s->n_labels; i++)
		out[n++] = s->label[i];
	for (size_t i = 0; i < o->n_labels; i++) {
		bool has = !o->label_value[i][0];

		for (size_t k = 0; k < s->n_labels; k++)
			has |= strcmp(s->label[k].name, o->label_name[i]) == 0;
		if (!has)
			out[n++] = (struct gs_metrics_label){o->label_name[i], o->label_value[i]};
	}
	qsort(out, n, sizeof(*out), by_name);
	return n;
}

int push_remote_write_put(void *message, const struct gs_metrics_sample *sample)
{
	struct gs_metrics_label label[1 + GS_METRICS_LABELS_MAX + GS_PUSH_LABELS_MAX];
	struct push_message *m = message;
	size_t n = all_labels(m, sample, label), need = 64;
	uint8_t *series, *one;
	uint64_t bits;
	struct gs_pb pb;
	int r;

	/* Texts that are not UTF-8 grow: three bytes for one. */
	for (size_t i = 0; i < n; i++)
		need += 32 + 3 * (strlen(label[i].name) + strlen(label[i].value));
	r = gs_buf_reserve(&m->out, need);
	if (r < 0)
		return r;
	pb.at = m->out.data + m->out.bytes;
	series = gs_pb_open(&pb, 1, GS_PB_LARGE);
	for (size_t i = 0; i < n; i++) {
		one = gs_pb_open(&pb, 1, GS_PB_LARGE);
		gs_pb_text(&pb, 1, label[i].name, SIZE_MAX);
		gs_pb_text(&pb, 2, label[i].value, SIZE_MAX);
		gs_pb_close(&pb, one, GS_PB_LARGE);
	}
	one = gs_pb_open(&pb, 2, GS_PB_SMALL);
	memcpy(&bits, &sample->value, sizeof(bits));
	gs_pb_fixed64(&pb, 1, bits);
	gs_pb_int(&pb, 2, sample->time_ms ? sample->time_ms : m->now_ms);
	gs_pb_close(&pb, one, GS_PB_SMALL);
	gs_pb_close(&pb, series, GS_PB_LARGE);
	m->out.bytes = (size_t)(pb.at - m->out.data);
	m->n_samples++;
	return 0;
}
