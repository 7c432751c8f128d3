/* Calls of probes that the user described: their values, and what the kernel side added up. */
#include <string.h>

#include "core/base/clock.h"
#include "pipeline/ingest/ingest_int.h"
#include "model/trace/record_stack.h"

/* As many values as the row has, and texts as the event says, all inside of it. */
static const struct gs_user_name *check_values(const struct gs_ingest *f, const struct gs_event *ev)
{
	const struct gs_event_values *e = (const void *)ev;
	const struct gs_user_name *names;
	unsigned n;

	if (ev->bytes < GS_EVENT_VALUES_BYTES(0) || e->n_texts > GS_USER_TEXT_MAX ||
	    ev->bytes != GS_EVENT_VALUES_BYTES(e->n_texts))
		return NULL;
	names = gs_user_set_names(f->users, e->row, &n);
	return names && n == e->n_values ? names : NULL;
}

bool gs_ingest_values(struct gs_ingest *f, const struct gs_event *ev)
{
	const struct gs_event_values *e = (const void *)ev;

	return check_values(f, ev) && gs_ingest_call(f, &e->call, e);
}

static uint64_t as_double(uint64_t bits, bool is_f32)
{
	uint32_t low = (uint32_t)bits;
	double wide;
	float f;

	if (!is_f32)
		return bits;
	memcpy(&f, &low, sizeof(f));
	wide = f;
	memcpy(&bits, &wide, sizeof(bits));
	return bits;
}

bool gs_ingest_put_values(struct gs_ingest *f, const struct gs_event_values *e)
{
	const struct gs_user_name *names = check_values(f, &e->call.head);
	uint32_t name_str[GS_USER_VALUE_MAX];
	uint64_t value[GS_USER_VALUE_MAX];
	struct gs_rec_values *v;
	unsigned text = 0, n = 0;

	if (!names)
		return false;
	/* Texts are announced before the record that names them. One that could not be read is left
	 * out: the flag of the call says that it is missing. */
	for (unsigned i = 0; i < e->n_values; i++) {
		char copy[GS_USER_TEXT_BYTES + 1];

		name_str[i] = gs_ingest_intern(f, names[i].name);
		value[i] = e->value[i];
		if (names[i].value_type == GS_VALUE_F64) {
			value[i] = as_double(value[i], names[i].is_f32);
		} else if (names[i].value_type == GS_VALUE_STR) {
			if (text == e->n_texts)
				return false;
			memcpy(copy, e->text[text++], GS_USER_TEXT_BYTES);
			copy[GS_USER_TEXT_BYTES] = '\0';
			value[i] = gs_ingest_intern(f, copy);
		}
		n += !(e->unread >> i & 1);
	}
	v = gs_ingest_put(f, GS_REC_VALUES, sizeof(*v), n * sizeof(v->values[0]));
	for (unsigned i = 0; i < e->n_values; i++) {
		if (e->unread >> i & 1)
			continue;
		v->values[v->n_values++] = (struct gs_rec_value){
			.name_str = name_str[i],
			.value_type = names[i].value_type,
			.value = value[i],
		};
	}
	return true;
}

static void put_aggregate(struct gs_ingest *f, const struct gs_user_sum *sum, uint32_t thread)
{
	bool of_duration = sum->aggregate == GS_AGGREGATE_HIST_DURATION;
	const uint32_t *now = of_duration ? sum->now->hist_ns : sum->now->hist;
	const uint32_t *before = of_duration ? sum->before->hist_ns : sum->before->hist;
	bool of_value = sum->value != NULL;
	struct gs_rec_bucket buckets[GS_HIST_N_BUCKETS];
	struct gs_rec_aggregate *a;
	uint32_t n = 0, value_str = 0;

	if (of_value || of_duration)
		value_str = gs_ingest_intern(f, of_value ? sum->value->name : "duration");
	for (uint32_t i = 0; i < GS_HIST_N_BUCKETS && (of_value || of_duration); i++)
		if (now[i] != before[i])
			buckets[n++] = (struct gs_rec_bucket){i, now[i] - before[i]};
	a = gs_ingest_put(f, GS_REC_AGGREGATE, sizeof(*a), n * sizeof(a->buckets[0]));
	a->thread = thread;
	a->function = sum->func;
	a->time_ns = gs_clock_boot_ns();
	a->aggregate = sum->aggregate;
	a->is_signed = sum->is_signed;
	a->value_str = value_str;
	a->n_buckets = n;
	memcpy(a->buckets, buckets, n * sizeof(buckets[0]));
	if (of_value) {
		a->value_type = sum->value->value_type;
		a->count = sum->now->n_values - sum->before->n_values;
		a->sum = sum->now->sum - sum->before->sum;
		a->min = sum->now->min;
		a->max = sum->now->max;
		return;
	}
	a->value_type = GS_VALUE_U64;
	a->count = sum->now->calls - sum->before->calls;
	a->sum = of_duration ? sum->now->total_ns - sum->before->total_ns : 0;
	a->max = of_duration ? sum->now->max_ns : 0;
}

void gs_ingest_user(struct gs_ingest *f, const struct gs_user_sum *sum)
{
	struct gs_thread thread = {.pid = sum->pid, .tid = sum->tid};
	struct gs_cell before = {.func = sum->func}, now = {.func = sum->func};
	uint32_t id;

	if (f->ended)
		return;
	now.thread_slot = GS_INGEST_PAST; /* sums are read some time after the calls */
	memcpy(thread.comm, sum->now->comm, sizeof(thread.comm));
	before.calls = sum->before->calls;
	before.total_ns = sum->before->total_ns;
	before.max_ns = sum->before->max_ns;
	before.bytes = sum->before->bytes;
	memcpy(before.hist, sum->before->hist_ns, sizeof(before.hist));
	now.calls = sum->now->calls;
	now.total_ns = sum->now->total_ns;
	now.max_ns = sum->now->max_ns;
	now.bytes = sum->now->bytes;
	memcpy(now.hist, sum->now->hist_ns, sizeof(now.hist));
	gs_ingest_cell(f, &thread, &before, &now);
	if (!sum->aggregate || f->ended)
		return;
	id = gs_ingest_thread_find(f, sum->pid, sum->tid, thread.comm, GS_INGEST_PAST);
	if (!id || !gs_ingest_function(f, sum->func))
		return;
	put_aggregate(f, sum, id);
	gs_ingest_settle(f);
}
