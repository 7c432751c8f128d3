/* Findings of a stream of records: what goes to analysis/explain, and what it found in words and documents. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "output/findings/findings.h"
#include "core/base/mem.h"
#include "model/gpu_work/record.h"
#include "model/node/record.h"
#include "model/trace/dict.h"
#include "model/trace/record_account.h"
#include "pipeline/correlate/correlate.h"
#include "output/gpu_report/hangs.h"
#include "pipeline/holders/holders.h"

_Static_assert(GS_EXPLAIN_STEP_SLOTS == GS_AGGREGATE_STEP_SLOTS, "steps are handed on");

#define SUMS_MAX  64
#define MEMORY_NS 1000000000ull

struct sums {              /* of memory of a process, bytes; NAN: not known */
	uint32_t process;  /* id; 0: free */
	double allocated;  /* by CUDA */
	double used[8];    /* of these, by PyTorch's allocator, by device */
	uint64_t begin_ns; /* of the second that goes on; 0: none */
	double peak_used, least_allocated;
};

struct gs_findings {
	struct sums sums[SUMS_MAX];
	struct gs_explain *explain;
	struct gs_aggregate *view; /* lent; NULL: no steps */
	struct gs_node_decoder *decoder;
	struct gs_dict *dict; /* names of calls */
	uint64_t start_ns;    /* of the session, boot clock; 0: none yet */
	uint64_t now_ns;      /* the latest time that is known */
	int64_t wall_minus_boot_ns;
	int error;      /* of a step, which cannot be returned from where it is reported */
	bool was_shown; /* lines were written as findings came */
};

static void take_step(void *ctx, const struct gs_aggregate_step *step)
{
	struct gs_findings *f = ctx;
	const struct gs_rec_process *p = gs_dict_process(f->dict, step->process);
	struct gs_explain_step s = {.slot = step->slot,
				    .run = step->run,
				    .pid = p ? p->pid : 0,
				    .tid = step->tid,
				    .start_ns = step->start_ns,
				    .dur_ns = step->dur_ns,
				    .regular = step->regular};
	int r = gs_explain_take_step(f->explain, &s);

	if (r < 0)
		f->error = r;
}

/* Stacks may come after the calls that have them: a place is named when it matters. */
static void name_place(void *ctx, uint64_t site, char *out, size_t bytes)
{
	const struct gs_rec_memory_site place = {
		.process = 1, .py_stack = (uint32_t)(site >> 32), .native_stack = (uint32_t)site};
	const struct gs_findings *f = ctx;

	gs_holders_describe_place(f->dict, &place, out, bytes);
	if (strcmp(out, "unknown") == 0)
		out[0] = '\0';
}

int gs_findings_new(struct gs_aggregate *view, struct gs_findings **ret)
{
	struct gs_findings *f = calloc(1, sizeof(*f));
	int r = f ? gs_explain_new(&f->explain) : -ENOMEM;

	if (r == 0) {
		f->decoder = gs_node_decoder_new();
		f->dict = gs_dict_new();
		r = f->decoder && f->dict ? 0 : -ENOMEM;
		if (f->dict)
			gs_dict_keep_stacks(f->dict);
		gs_explain_set_namer(f->explain, name_place, f);
	}
	if (r < 0) {
		gs_findings_free(&f);
		return r;
	}
	f->view = view;
	if (view)
		gs_aggregate_set_step_receiver(view, take_step, f);
	*ret = f;
	return 0;
}

void gs_findings_free(struct gs_findings **findings)
{
	struct gs_findings *f = *findings;

	if (!f)
		return;
	if (f->view)
		gs_aggregate_set_step_receiver(f->view, NULL, f);
	gs_node_decoder_free(&f->decoder);
	gs_dict_free(&f->dict);
	gs_explain_free(&f->explain);
	free(f);
	*findings = NULL;
}

int gs_findings_add_setting(struct gs_findings_options *o, char *setting, struct gs_err *err)
{
	if (strcmp(setting, "help") == 0) {
		o->lists_settings = true;
		return 0;
	}
	if (o->n_settings == GS_FINDINGS_SETTINGS_MAX)
		return gs_err_set(err, -EINVAL, "at most %d times --set", GS_FINDINGS_SETTINGS_MAX);
	if (!strchr(setting, '='))
		return -EINVAL;
	o->settings[o->n_settings++] = setting;
	return 0;
}

void gs_findings_list_settings(FILE *out)
{
	for (unsigned i = 0; gs_detectors[i]; i++) {
		const struct gs_conf_section *section = gs_detectors[i]->options->sections;

		for (size_t k = 0; k < section->n_keys; k++) {
			const struct gs_conf_key *key = &section->keys[k];
			char name[80];

			snprintf(name, sizeof(name), "%s.%s", gs_detectors[i]->name, key->name);
			fprintf(out, "%-32s %-8s %s\n", name, key->preset, key->comment);
		}
	}
}

int gs_findings_set(struct gs_findings *findings, const struct gs_findings_options *o,
		    struct gs_err *err)
{
	int r = 0;

	for (unsigned i = 0; i < o->n_settings && r == 0; i++) {
		const char *equals = strchr(o->settings[i], '=');
		char key[128];

		snprintf(key, sizeof(key), "%.*s", (int)(equals - o->settings[i]), o->settings[i]);
		r = gs_explain_set(findings->explain, key, equals + 1, err);
	}
	return r;
}

static void move_time(struct gs_findings *f, uint64_t time_ns)
{
	if (time_ns > f->now_ns)
		f->now_ns = time_ns;
}

/* Of a process and a function that are known. */
static int take_call(struct gs_findings *f, const struct gs_rec_call *call)
{
	const struct gs_rec_thread *thread = gs_dict_thread(f->dict, call->thread);
	const struct gs_rec_process *p = thread ? gs_dict_process(f->dict, thread->process) : NULL;
	const struct gs_rec_function *fn = gs_dict_function(f->dict, call->function);
	struct gs_explain_call c = {.function = call->function,
				    .bytes = call->bytes,
				    .start_ns = call->start_ns,
				    .dur_ns = call->dur_ns};

	move_time(f, call->start_ns + call->dur_ns);
	if (!p || !fn)
		return 0;
	memcpy(c.arg, call->arg, sizeof(c.arg));
	c.aux = call->aux;
	c.failed = call->failed;
	c.seen_from_begin = p->head.flags & GS_PROCESS_BEGUN;
	c.process = p->id;
	c.site = (uint64_t)call->py_stack << 32 | call->native_stack;
	c.pid = p->pid;
	c.tid = thread->tid;
	c.layer = fn->layer;
	c.func_class = fn->func_class;
	c.comm = gs_dict_string(f->dict, p->comm_str);
	c.name = gs_dict_string(f->dict, fn->name_str);
	return gs_explain_take_call(f->explain, &c);
}

/* It says what time it is, too: threads have accounts also while no step ends. */
static void take_account(struct gs_findings *f, const struct gs_rec_account *r)
{
	struct gs_explain_account a = {.pid = r->pid, .tid = r->tid, .time_ns = r->time_ns};
	uint64_t time_ns[GS_STATE_COUNT][GS_INSIDE_COUNT] = {0};

	for (unsigned state = 0; state < r->n_states; state++)
		for (unsigned in = 0; in < r->n_insides; in++)
			if (state < GS_STATE_COUNT && in < GS_INSIDE_COUNT)
				time_ns[state][in] = r->ns[state * r->n_insides + in];
	(void)gs_account_parts(time_ns, a.part_ns);
	for (unsigned state = 0; state < GS_STATE_COUNT; state++)
		for (unsigned in = 0; in < GS_INSIDE_COUNT; in++)
			if (in != GS_INSIDE_NONE && in != GS_INSIDE_OPERATOR)
				a.calls_ns[gs_account_part_of(state, GS_INSIDE_NONE)] +=
					time_ns[state][in];
	move_time(f, r->time_ns);
	gs_explain_take_account(f->explain, &a);
	gs_explain_tick(f->explain, f->now_ns);
}

static struct sums *sums_of(struct gs_findings *f, uint32_t process)
{
	for (uint32_t i = 0; i < SUMS_MAX; i++) {
		struct sums *s = &f->sums[i];

		if (s->process == process)
			return s;
		if (s->process)
			continue;
		*s = (struct sums){.process = process, .allocated = NAN};
		for (unsigned k = 0; k < GS_ARRAY_LEN(s->used); k++)
			s->used[k] = NAN;
		return s;
	}
	return NULL;
}

/* Is the counter one of these sums? */
static bool set_sum(struct sums *s, const char *name, double bytes)
{
	size_t n = strlen(GS_CORRELATE_TORCH_COUNTER);
	bool is_torch = strncmp(name, GS_CORRELATE_TORCH_COUNTER, n) == 0 && name[n] >= '0' &&
			name[n] < '0' + (int)GS_ARRAY_LEN(s->used) && !name[n + 1];

	if (is_torch)
		s->used[name[n] - '0'] = bytes;
	else if (strcmp(name, GS_CORRELATE_DEVICE_COUNTER) == 0)
		s->allocated = bytes;
	else
		return false;
	return true;
}

/* Is the counter one of those? */
static bool take_stress(struct gs_findings *f, const struct gs_rec_counter *c)
{
	const char *name = gs_dict_string(f->dict, c->name_str);
	struct gs_explain_stress s = {.time_ns = c->time_ns, .amount = (double)c->value};

	if (strcmp(name, GS_FINDINGS_QUOTA_COUNTER) == 0)
		s.kind = GS_EXPLAIN_QUOTA;
	else if (strcmp(name, GS_FINDINGS_RETRANSMITS_COUNTER) == 0)
		s.kind = GS_EXPLAIN_RETRANSMITS;
	else
		return false;
	if (c->value > 0)
		gs_explain_take_stress(f->explain, &s);
	return true;
}

/* A second of peaks of what is used, and of the least that is allocated. */
static int take_counter(struct gs_findings *f, const struct gs_rec_counter *c)
{
	const struct gs_rec_process *p = gs_dict_process(f->dict, c->process);
	struct sums *s = p && c->value >= 0 ? sums_of(f, c->process) : NULL;
	struct gs_explain_memory m = {.time_ns = c->time_ns};
	double used = NAN;

	if (take_stress(f, c))
		return 0;
	if (!s || !set_sum(s, gs_dict_string(f->dict, c->name_str), (double)c->value))
		return 0;
	for (unsigned i = 0; i < GS_ARRAY_LEN(s->used); i++)
		if (isfinite(s->used[i]))
			used = isfinite(used) ? used + s->used[i] : s->used[i];
	if (!s->begin_ns || c->time_ns < s->begin_ns) {
		s->begin_ns = c->time_ns;
		s->peak_used = s->least_allocated = NAN;
	}
	s->peak_used = fmax(s->peak_used, used); /* NAN gives way */
	s->least_allocated = fmin(s->least_allocated, s->allocated);
	if (c->time_ns - s->begin_ns < MEMORY_NS)
		return 0;
	s->begin_ns = 0;
	m.pid = p->pid;
	m.comm = gs_dict_string(f->dict, p->comm_str);
	m.allocated_bytes = s->least_allocated;
	m.used_bytes = s->peak_used;
	return gs_explain_take_memory(f->explain, &m);
}

/* Kernels of NCCL communicate; all else that a GPU does computes, or copies. */
static int take_gpu_work(struct gs_findings *f, const struct gs_rec_gpu_work *r)
{
	const struct gs_rec_process *p = gs_dict_process(f->dict, r->process);
	struct gs_explain_gpu_work w = {
		.device = r->work.device, .start_ns = r->work.start_ns, .end_ns = r->work.end_ns};

	if (!p || (r->work.what != GS_WORK_KERNEL && r->work.what != GS_WORK_GRAPH))
		return 0;
	w.pid = p->pid;
	w.comm = gs_dict_string(f->dict, p->comm_str);
	w.is_comm = r->work.what == GS_WORK_KERNEL &&
		    strncmp(gs_dict_string(f->dict, r->name_str), "nccl", 4) == 0;
	return gs_explain_take_gpu_work(f->explain, &w);
}

static int take_gpu_window(struct gs_findings *f, const struct gs_rec_gpu_window *r)
{
	const struct gs_rec_process *p = gs_dict_process(f->dict, r->process);

	if (!p || r->what == GS_GPU_WINDOW_REFUSED)
		return 0;
	return gs_explain_take_window_end(f->explain, p->pid);
}

static int take_record(struct gs_findings *f, const struct gs_record *record)
{
	const struct gs_rec_session *session = (const void *)record;
	struct gs_node_snapshot *node = NULL;
	int r = gs_dict_apply(f->dict, record);

	/* Names that are out of range are as good as none. */
	if (r == 0 || r == -EINVAL)
		r = gs_node_decode(f->decoder, record, &node);

	if (record->kind == GS_REC_SESSION && !f->start_ns) {
		f->start_ns = session->start_ns;
		f->wall_minus_boot_ns = session->wall_minus_boot_ns;
	} else if (record->kind == GS_REC_END) {
		move_time(f, ((const struct gs_rec_end *)record)->end_ns);
		gs_explain_tick(f->explain, ((const struct gs_rec_end *)record)->end_ns);
	} else if (record->kind == GS_REC_CALL && r == 0) {
		r = take_call(f, (const void *)record);
	} else if (record->kind == GS_REC_COUNTER) {
		r = take_counter(f, (const void *)record);
	} else if (record->kind == GS_REC_ACCOUNT) {
		take_account(f, (const void *)record);
	} else if (record->kind == GS_REC_GPU_WORK) {
		r = take_gpu_work(f, (const void *)record);
	} else if (record->kind == GS_REC_GPU_WINDOW) {
		r = take_gpu_window(f, (const void *)record);
	} else if (r == GS_NODE_WHOLE) {
		r = gs_findings_take_node(f, node);
		gs_node_snapshot_free(&node);
	}
	return r < 0 && r != -EINVAL ? r : 0;
}

int gs_findings_push(struct gs_findings *f, const struct gs_batch *batch)
{
	int r = 0;

	gs_records_for_each (batch, record)
		if (r == 0)
			r = take_record(f, record);
	return r ? r : f->error;
}

int gs_findings_take_node(struct gs_findings *f, const struct gs_node_snapshot *node)
{
	if (!f->start_ns) {
		f->start_ns = node->time_ns;
		f->wall_minus_boot_ns = node->wall_ns - (int64_t)node->time_ns;
	}
	move_time(f, node->time_ns);
	return gs_explain_take_node(f->explain, node);
}

int gs_findings_finish(struct gs_findings *f, unsigned slot, uint32_t run,
		       struct gs_explain_result *ret)
{
	return gs_explain_finish(f->explain, slot, run, ret);
}

uint64_t gs_findings_start_ns(const struct gs_findings *f)
{
	return f->start_ns;
}

/* Times of a file may be anything: they wrap, where a sum of signed ones would not be defined. */
int64_t gs_findings_wall_of(const struct gs_findings *f, uint64_t time_ns)
{
	return (int64_t)(time_ns + (uint64_t)f->wall_minus_boot_ns);
}

/* --- words --- */

/* What shows a cause: a whole command, or options of `report`, which without a recording are those of a
 * trace of the process. */
static const char *put_command(const struct gs_explain_finding *f, const char *recording,
			       char out[128])
{
	const char *command = gs_explain_command(f);

	if (command[0] != '-')
		snprintf(out, 128, "%s", command);
	else if (recording)
		snprintf(out, 128, "gpuscope report %s %.80s", command, recording);
	else
		snprintf(out, 128, "gpuscope trace %s -p %u", command, f->pid);
	return out;
}

const char *gs_findings_cause(const struct gs_explain_finding *f, const char *recording,
			      char out[GS_FINDINGS_CAUSE_BYTES])
{
	char command[128];

	snprintf(out, GS_FINDINGS_CAUSE_BYTES, "cause: %s; see: %s",
		 f->cause.key ? f->cause.text : "not known", put_command(f, recording, command));
	return out;
}

/* --- documents --- */

static double seconds_of(const struct gs_findings *f, uint64_t ns)
{
	return ns >= f->start_ns ? (double)(ns - f->start_ns) / 1e9
				 : -(double)(f->start_ns - ns) / 1e9;
}

static void put_cause(struct gs_doc *doc, const struct gs_explain_finding *f, const char *recording)
{
	const struct gs_explain_cause *c = &f->cause;
	char command[128];

	gs_doc_put_text(doc, "see", put_command(f, recording, command));
	if (!c->key) {
		gs_doc_put_null(doc, "cause");
	} else {
		gs_doc_begin_map(doc, "cause");
		gs_doc_put_text(doc, "key", c->key);
		gs_doc_put_text(doc, "text", c->text);
		gs_doc_put_double(doc, "confidence", c->confidence);
		gs_doc_put_double(doc, "judged_seconds", (double)c->judged_ns / 1e9);
		gs_doc_put_u64_if(doc, "pid", c->pid, c->pid != 0);
		gs_doc_end(doc);
	}
	gs_doc_begin_list(doc, "evidence", c->n_evidence);
	for (uint32_t i = 0; i < c->n_evidence; i++) {
		gs_doc_begin_flat(doc, NULL);
		gs_doc_put_text(doc, "key", c->evidence[i].key);
		gs_doc_put_double(doc, c->evidence[i].is_count ? "before_count" : "before_ns",
				  c->evidence[i].before);
		gs_doc_put_double(doc, c->evidence[i].is_count ? "after_count" : "after_ns",
				  c->evidence[i].after);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
}

/* begin: of the map, which a line of JSON has flat. */
static void put_finding(struct gs_doc *doc, const struct gs_findings *run,
			const struct gs_explain_finding *f, const char *recording)
{
	char text[GS_EXPLAIN_TEXT_BYTES];

	gs_doc_put_text(doc, "text", gs_explain_text(f, text));
	gs_doc_put_text(doc, "detector", f->begun.detector);
	gs_doc_put_text(doc, "subject", gs_explain_subject_name(f->subject));
	gs_doc_put_text(doc, "name", f->name);
	gs_doc_put_text(doc, "job", f->job);
	gs_doc_put_u64_if(doc, "pid", f->pid, f->pid != 0);
	gs_doc_put_u64_if(doc, "tid", f->tid, f->tid != 0);
	gs_doc_put_double(doc, "since_seconds", seconds_of(run, f->begun.since_ns));
	gs_doc_put_double(doc, "found_seconds", seconds_of(run, f->begun.found_ns));
	if (f->ended_ns)
		gs_doc_put_double(doc, "ended_seconds", seconds_of(run, f->ended_ns));
	else
		gs_doc_put_null(doc, "ended_seconds");
	gs_doc_put_time(doc, "since", gs_findings_wall_of(run, f->begun.since_ns));
	gs_doc_put_bool(doc, "became_usual", f->became_usual);
	gs_doc_put_text(doc, "unit", gs_explain_unit(f));
	gs_doc_put_double(doc, "before", f->begun.before);
	gs_doc_put_double(doc, "after", f->after);
	gs_doc_put_double(doc, "change_percent",
			  f->begun.before != 0 ? (f->after / f->begun.before - 1) * 100 : 0);
	gs_doc_put_double(doc, "score", f->begun.score);
	gs_doc_put_double(doc, "limit", f->begun.limit);
	gs_doc_put_u64(doc, "n_before", f->begun.n_before);
	gs_doc_put_u64(doc, "n_after", f->begun.n_after);
	gs_doc_put_text(doc, "advice", gs_explain_advice(f));
	put_cause(doc, f, recording);
	gs_doc_begin_flat(doc, "model");
	for (uint32_t i = 0; i < f->begun.n_parameters; i++)
		gs_doc_put_double(doc, f->begun.parameters[i].name, f->begun.parameters[i].value);
	gs_doc_end(doc);
}

void gs_findings_put(struct gs_doc *doc, const struct gs_findings *run,
		     const struct gs_explain_result *result, const char *recording)
{
	gs_doc_begin_list(doc, "findings", result->n_findings);
	for (size_t i = 0; i < result->n_findings; i++) {
		const struct gs_explain_finding *f = &result->findings[i];

		gs_doc_begin_map(doc, NULL);
		put_finding(doc, run, f, recording);
		gs_doc_begin_list(doc, "beside", f->n_beside);
		for (uint32_t k = 0; k < f->n_beside; k++)
			gs_doc_put_u64(doc, NULL, f->beside[k]);
		gs_doc_end(doc);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
}

void gs_findings_put_one(struct gs_doc *doc, const struct gs_findings *run,
			 const struct gs_explain_finding *finding)
{
	gs_doc_begin_map(doc, NULL);
	put_finding(doc, run, finding, NULL);
	gs_doc_end(doc);
}

void gs_findings_doc(struct gs_doc *doc, const struct gs_findings *run,
		     const struct gs_explain_result *result, const struct gs_summary *summary,
		     const char *file)
{
	gs_doc_begin_map(doc, NULL);
	gs_doc_put_version(doc);
	gs_doc_put_text(doc, "file", file);
	gs_doc_put_time(doc, "start_time", gs_findings_wall_of(run, run->start_ns));
	gs_doc_put_u64(doc, "steps", result->n_steps);
	gs_doc_put_u64(doc, "samples", result->n_samples);
	gs_doc_put_u64(doc, "left_out", result->n_left_out);
	gs_findings_put(doc, run, result, *file ? file : NULL);
	gs_report_hangs_doc(doc, summary);
	gs_doc_end(doc);
}

/* --- as they come --- */

int gs_findings_put_line(const struct gs_findings *f, const struct gs_explain_finding *finding,
			 uint64_t number, FILE *out)
{
	struct gs_pen pen;
	struct gs_doc doc = {.ops = &gs_doc_json, .pen = &pen};

	gs_pen_open(&pen, out);
	gs_doc_begin_flat(&doc, NULL);
	if (number)
		gs_doc_put_u64(&doc, "number", number);
	put_finding(&doc, f, finding, NULL);
	gs_doc_end(&doc);
	return gs_pen_close(&pen);
}

struct showing {
	struct gs_findings *findings;
	FILE *out;
	enum gs_findings_format format;
};

void gs_findings_put_text(const struct gs_findings *findings, const struct gs_explain_finding *f,
			  FILE *out)
{
	uint64_t at_ns = f->ended_ns ? f->ended_ns : f->begun.since_ns;
	time_t at_s = (time_t)(gs_findings_wall_of(findings, at_ns) / 1000000000);
	char text[GS_EXPLAIN_TEXT_BYTES], cause[GS_FINDINGS_CAUSE_BYTES], clock[16];
	const char *advice = gs_explain_advice(f);
	struct tm tm;

	if (!localtime_r(&at_s, &tm) || !strftime(clock, sizeof(clock), "%H:%M:%S", &tm))
		clock[0] = '\0';
	fprintf(out, "%s %s: %s%s\n    %s\n", f->ended_ns ? "until" : "since", clock,
		gs_explain_text(f, text),
		!f->ended_ns      ? ""
		: f->became_usual ? " (usual now)"
				  : " (over)",
		gs_findings_cause(f, NULL, cause));
	if (!f->ended_ns && advice[0])
		fprintf(out, "    do: %s\n", advice);
}

static void show_finding(void *ctx, const struct gs_explain_finding *f)
{
	const struct showing *s = ctx;

	s->findings->was_shown = true;
	if (s->format == GS_FINDINGS_TABLE) {
		gs_findings_put_text(s->findings, f, s->out);
		return;
	}
	(void)gs_findings_put_line(s->findings, f, 0, s->out);
	fputc('\n', s->out);
}

void gs_findings_report(struct gs_findings *f, gs_explain_report_fn fn, void *ctx)
{
	gs_explain_report(f->explain, f->now_ns, fn, ctx);
}

void gs_findings_show(struct gs_findings *f, FILE *out, enum gs_findings_format format)
{
	struct showing s = {f, out, format};

	gs_explain_report(f->explain, f->now_ns, show_finding, &s);
	fflush(out);
}

bool gs_findings_was_shown(const struct gs_findings *f)
{
	return f->was_shown;
}

int gs_findings_finish_steps(struct gs_findings *f, struct gs_explain_result *ret)
{
	GS_CLEANUP(gs_summary_free) struct gs_summary *summary = NULL;
	int r = gs_aggregate_make_summary(f->view, &summary);

	return r < 0 ? r : gs_findings_finish(f, summary->steps.slot, summary->steps.run, ret);
}
