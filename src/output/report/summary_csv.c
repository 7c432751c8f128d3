/*
 * The summary as CSV (RFC 4180): one row for each function over all, in each process and in each
 * thread, then what failed, was lost or could not be attached to. One set of columns for all rows;
 * what a row has no value for is empty. doc/summary.md describes every column.
 */
#include "output/report/summary_mpi.h"
#include "core/text/text.h"
#include "model/trace/func.h"

/* The order of the columns. */
enum column {
	COL_RECORD,
	COL_SCOPE,
	COL_PID,
	COL_TID,
	COL_COMM,
	COL_LAYER,
	COL_FUNCTION,
	COL_CLASS,
	COL_CALLS,
	COL_ERRORS,
	COL_TOTAL,
	COL_MEAN,
	COL_P50,
	COL_P95,
	COL_P99,
	COL_MAX,
	COL_BYTES,
	COL_INNER,
	COL_CODE,
	COL_NAME,
	COL_COUNT,
	COL_DETAIL,
	COL_LAUNCHES,
	COL_COPIES,
	COL_ALLOCS,
	COL_COLLECTIVES,
	COL_OTHERS,
	COL_STEPPED,
	COL_PARTIAL,
	N_COLUMNS
};

static const char *const heads[N_COLUMNS] = {
	"record", "scope",       "pid",         "tid",
	"comm",   "layer",       "function",    "class",
	"calls",  "errors",      "total_ns",    "mean_ns",
	"p50_ns", "p95_ns",      "p99_ns",      "max_ns",
	"bytes",  "inner_calls", "code",        "name",
	"count",  "detail",      "launches",    "copies",
	"allocs", "collectives", "other_calls", "single_stepped",
	"partial"};

/* A row is filled cell by cell from left to right; cells skipped stay empty. */
struct row {
	struct gs_pen *pen;
	unsigned at;
};

static void go_to(struct row *row, enum column column)
{
	for (; row->at < column; row->at++)
		gs_pen_puts(row->pen, ",");
}

static void put_text(struct row *row, enum column column, const char *text)
{
	go_to(row, column);
	gs_pen_check(row->pen, gs_text_csv(&row->pen->buf, text));
}

static void put_number(struct row *row, enum column column, uint64_t v)
{
	go_to(row, column);
	gs_pen_printf(row->pen, "%llu", (unsigned long long)v);
}

static void put_code(struct row *row, int32_t code)
{
	go_to(row, COL_CODE);
	gs_pen_printf(row->pen, "%d", code);
}

static void end_row(struct row *row)
{
	go_to(row, N_COLUMNS - 1);
	gs_pen_puts(row->pen, GS_TEXT_CSV_EOL);
	gs_pen_yield(row->pen);
	row->at = 0;
}

static void put_functions(struct row *row, const struct gs_function_list *list,
			  const struct gs_process_summary *p, const struct gs_thread_summary *t)
{
	for (size_t i = 0; i < list->n; i++) {
		const struct gs_function_stats *f = &list->items[i];

		put_text(row, COL_RECORD, "function");
		put_text(row, COL_SCOPE, t ? "thread" : p ? "process" : "all");
		if (p)
			put_number(row, COL_PID, p->pid);
		if (t)
			put_number(row, COL_TID, t->tid);
		if (p)
			put_text(row, COL_COMM, t ? t->comm : p->comm);
		put_text(row, COL_LAYER, gs_layer_name(f->layer));
		put_text(row, COL_FUNCTION, f->name);
		put_text(row, COL_CLASS, gs_class_name(f->func_class));
		put_number(row, COL_CALLS, f->calls);
		put_number(row, COL_ERRORS, f->errors);
		if (f->n_timed || !f->calls)
			put_number(row, COL_TOTAL, f->total_ns);
		if (f->n_timed) {
			put_number(row, COL_MEAN, f->mean_ns);
			put_number(row, COL_P50, f->p50_ns);
			put_number(row, COL_P95, f->p95_ns);
			put_number(row, COL_P99, f->p99_ns);
			put_number(row, COL_MAX, f->max_ns);
		}
		put_number(row, COL_BYTES, f->bytes);
		put_number(row, COL_INNER, f->inner);
		put_text(row, COL_STEPPED, f->stepped ? "true" : "false");
		put_text(row, COL_PARTIAL, f->partial ? "true" : "false");
		end_row(row);
	}
}

static void put_uses(struct row *row, const struct gs_summary *s)
{
	for (size_t i = 0; i < s->n_uses; i++) {
		const struct gs_use_summary *u = &s->uses[i];

		put_text(row, COL_RECORD, "by_operator");
		put_text(row, COL_SCOPE, "all");
		put_text(row, COL_LAYER, gs_layer_name(u->layer));
		put_text(row, COL_FUNCTION, u->name);
		put_number(row, COL_TOTAL, u->total_ns);
		put_number(row, COL_BYTES, u->bytes);
		put_number(row, COL_LAUNCHES, u->launches);
		put_number(row, COL_COPIES, u->copies);
		put_number(row, COL_ALLOCS, u->allocs);
		put_number(row, COL_COLLECTIVES, u->collectives);
		put_number(row, COL_OTHERS, u->others);
		end_row(row);
	}
}

static void put_errors(struct row *row, const struct gs_summary *s)
{
	for (size_t i = 0; i < s->n_errors; i++) {
		const struct gs_error_count *e = &s->errors[i];

		put_text(row, COL_RECORD, "error");
		put_text(row, COL_SCOPE, "all");
		put_text(row, COL_LAYER, gs_layer_name(e->layer));
		put_text(row, COL_FUNCTION, e->function);
		if (e->code)
			put_code(row, e->code);
		put_text(row, COL_NAME, e->name);
		put_number(row, COL_COUNT, e->count);
		end_row(row);
	}
}

/* A line of Python code: what there is no column for is in detail, as key=value. */
static void put_lines(struct row *row, const struct gs_summary *s)
{
	for (size_t i = 0; i < s->n_python_lines; i++) {
		const struct gs_line_stats *l = &s->python_lines[i];
		char place[700], detail[500];

		snprintf(place, sizeof(place), "%.640s:%u", l->file, l->line);
		snprintf(
			detail, sizeof(detail),
			"sample_ns=%llu total_samples=%llu total_ns=%llu launches=%llu collectives=%llu copies=%llu allocs=%llu slow_operators=%llu operator_ns=%llu wait_ns=%llu total_wait_ns=%llu",
			(unsigned long long)l->sample_ns, (unsigned long long)l->total_samples,
			(unsigned long long)l->total_ns, (unsigned long long)l->launches,
			(unsigned long long)l->collectives, (unsigned long long)l->copies,
			(unsigned long long)l->allocs, (unsigned long long)l->slow_ops,
			(unsigned long long)l->op_ns, (unsigned long long)l->wait_ns,
			(unsigned long long)l->total_wait_ns);
		put_text(row, COL_RECORD, "python_line");
		put_text(row, COL_SCOPE, "all");
		put_text(row, COL_LAYER, gs_layer_name(GS_LAYER_PYTHON));
		put_text(row, COL_FUNCTION, l->function);
		put_number(row, COL_CALLS, l->calls);
		put_number(row, COL_TOTAL, l->call_ns);
		put_number(row, COL_BYTES, l->bytes);
		put_text(row, COL_NAME, place);
		put_number(row, COL_COUNT, l->samples);
		put_text(row, COL_DETAIL, detail);
		end_row(row);
	}
}

static void put_python(struct row *row, const struct gs_summary *s)
{
	for (size_t i = 0; i < s->n_python_functions; i++) {
		const struct gs_python_function *f = &s->python_functions[i];
		char detail[800], self[40] = "";

		if (f->total_ns)
			snprintf(self, sizeof(self), "self_ns=%llu ",
				 (unsigned long long)f->self_ns);
		snprintf(detail, sizeof(detail), "%sresumes=%llu file=%.640s line=%u", self,
			 (unsigned long long)f->resumes, f->file, f->line);
		put_text(row, COL_RECORD, "python_function");
		put_text(row, COL_SCOPE, "all");
		put_text(row, COL_LAYER, gs_layer_name(GS_LAYER_PYTHON));
		put_text(row, COL_FUNCTION, f->name);
		put_text(row, COL_CLASS, gs_class_name(GS_CLASS_PYTHON));
		put_number(row, COL_CALLS, f->calls);
		if (f->total_ns) {
			put_number(row, COL_TOTAL, f->total_ns);
			put_number(row, COL_P50, f->p50_ns);
			put_number(row, COL_P95, f->p95_ns);
			put_number(row, COL_P99, f->p99_ns);
			put_number(row, COL_MAX, f->max_ns);
		}
		put_text(row, COL_DETAIL, detail);
		if (f->total_ns)
			put_number(row, COL_LAUNCHES, f->launches);
		end_row(row);
	}
}

/* What has no column of its own stands in the detail, as KEY=VALUE. */
static void put_probed(struct row *row, const struct gs_summary *s)
{
	char detail[320];

	for (size_t i = 0; i < s->n_aggregates; i++) {
		const struct gs_aggregate_summary *a = &s->aggregates[i];

		put_text(row, COL_RECORD, "aggregate");
		put_text(row, COL_SCOPE, "process");
		put_number(row, COL_PID, a->pid);
		put_text(row, COL_COMM, a->comm);
		put_text(row, COL_LAYER, gs_layer_name(a->layer));
		put_text(row, COL_FUNCTION, a->function);
		put_text(row, COL_NAME, a->value);
		put_number(row, COL_COUNT, a->count);
		snprintf(detail, sizeof(detail),
			 a->is_signed ? "sum=%lld;min=%lld;max=%lld;p50=%llu;p95=%llu;p99=%llu"
				      : "sum=%llu;min=%llu;max=%llu;p50=%llu;p95=%llu;p99=%llu",
			 (unsigned long long)a->sum, (unsigned long long)a->min,
			 (unsigned long long)a->max, (unsigned long long)a->p50,
			 (unsigned long long)a->p95, (unsigned long long)a->p99);
		put_text(row, COL_DETAIL, detail);
		end_row(row);
	}
	for (size_t i = 0; i < s->n_allocators; i++) {
		const struct gs_allocator_summary *a = &s->allocators[i];

		put_text(row, COL_RECORD, "allocator");
		put_text(row, COL_SCOPE, "process");
		put_number(row, COL_PID, a->pid);
		put_text(row, COL_COMM, a->comm);
		put_text(row, COL_LAYER, gs_layer_name(GS_LAYER_TORCH_MEM));
		put_number(row, COL_CALLS, a->allocations);
		put_number(row, COL_BYTES, a->live_bytes);
		snprintf(
			detail, sizeof(detail),
			"device=%d;peak=%llu;total=%llu;frees=%llu;unknown_frees=%llu;reserved=%llu;peak_reserved=%llu",
			a->device, (unsigned long long)a->peak_bytes,
			(unsigned long long)a->total_bytes, (unsigned long long)a->frees,
			(unsigned long long)a->unknown_frees, (unsigned long long)a->reserved_bytes,
			(unsigned long long)a->peak_reserved_bytes);
		put_text(row, COL_DETAIL, detail);
		end_row(row);
	}
	for (size_t i = 0; i < s->n_leaks; i++) {
		const struct gs_leak_summary *l = &s->leaks[i];

		put_text(row, COL_RECORD, "unfreed");
		put_text(row, COL_SCOPE, "process");
		put_number(row, COL_PID, l->pid);
		put_text(row, COL_LAYER, gs_layer_name(GS_LAYER_TORCH_MEM));
		put_text(row, COL_FUNCTION, l->site);
		put_number(row, COL_BYTES, l->bytes);
		put_number(row, COL_COUNT, l->blocks);
		snprintf(detail, sizeof(detail), "device=%d;py_stack=%u", l->device, l->py_stack);
		put_text(row, COL_DETAIL, detail);
		end_row(row);
	}
}

static void put_mpi(struct row *row, const struct gs_summary *s)
{
	char detail[192];

	for (size_t i = 0; i < s->n_mpi_ranks; i++) {
		const struct gs_mpi_rank_summary *r = &s->mpi_ranks[i];

		put_text(row, COL_RECORD, "mpi_rank");
		put_text(row, COL_SCOPE, "process");
		put_number(row, COL_PID, r->pid);
		put_text(row, COL_COMM, r->comm);
		put_text(row, COL_LAYER, gs_layer_name(GS_LAYER_MPI));
		put_number(row, COL_CALLS, r->calls);
		put_number(row, COL_TOTAL, r->total_ns);
		put_number(row, COL_BYTES, r->sent_bytes);
		snprintf(detail, sizeof(detail),
			 "rank=%d;ranks=%d;span_ns=%llu;received_bytes=%llu;posted_calls=%llu",
			 r->rank, r->n_ranks, (unsigned long long)r->span_ns,
			 (unsigned long long)r->received_bytes, (unsigned long long)r->room_calls);
		put_text(row, COL_DETAIL, detail);
		end_row(row);
	}
	for (size_t i = 0; i < s->n_mpi_peers; i++) {
		const struct gs_mpi_peer_summary *p = &s->mpi_peers[i];

		put_text(row, COL_RECORD, "mpi_peer");
		put_text(row, COL_SCOPE, "process");
		put_number(row, COL_PID, p->pid);
		put_text(row, COL_LAYER, gs_layer_name(GS_LAYER_MPI));
		put_number(row, COL_CALLS, p->calls);
		put_number(row, COL_BYTES, p->bytes);
		put_text(row, COL_NAME, gs_report_summary_mpi_direction(p->direction));
		snprintf(detail, sizeof(detail), "rank=%d;peer=%d;communicator=0x%llx;unsized=%llu",
			 p->rank, p->peer, (unsigned long long)p->comm,
			 (unsigned long long)p->unsized);
		put_text(row, COL_DETAIL, detail);
		end_row(row);
	}
}

static void put_lost(struct row *row, const struct gs_summary *s)
{
	for (size_t i = 0; i < s->n_lost; i++) {
		const struct gs_lost_count *l = &s->lost[i];

		put_text(row, COL_RECORD, "lost");
		put_text(row, COL_SCOPE, "all");
		put_text(row, COL_LAYER, gs_layer_name(l->layer));
		put_text(row, COL_NAME, gs_loss_name(l->cause));
		put_number(row, COL_COUNT, l->count);
		put_text(row, COL_DETAIL, l->detail);
		end_row(row);
	}
}

static void put_attach_failures(struct row *row, const struct gs_summary *s)
{
	for (size_t i = 0; i < s->n_attach_failures; i++) {
		const struct gs_attach_status *a = &s->attach_failures[i];

		put_text(row, COL_RECORD, "attach_failure");
		put_text(row, COL_SCOPE, "all");
		put_text(row, COL_FUNCTION, a->function);
		if (a->status < 0)
			put_code(row, -a->status);
		put_text(row, COL_NAME, a->reason);
		put_text(row, COL_DETAIL, a->path);
		end_row(row);
	}
}

void gs_report_summary_csv(struct gs_pen *pen, const struct gs_summary *s,
			   const struct gs_report_summary_style *style GS_UNUSED)
{
	struct row row = {.pen = pen};

	for (unsigned i = 0; i < N_COLUMNS; i++)
		put_text(&row, i, heads[i]);
	end_row(&row);
	put_functions(&row, &s->functions, NULL, NULL);
	for (size_t i = 0; i < s->n_processes; i++) {
		const struct gs_process_summary *p = &s->processes[i];

		put_functions(&row, &p->functions, p, NULL);
		for (size_t j = 0; j < p->n_threads; j++)
			put_functions(&row, &p->threads[j].functions, p, &p->threads[j]);
	}
	put_uses(&row, s);
	put_errors(&row, s);
	put_python(&row, s);
	put_lines(&row, s);
	put_probed(&row, s);
	put_mpi(&row, s);
	put_lost(&row, s);
	put_attach_failures(&row, s);
}
