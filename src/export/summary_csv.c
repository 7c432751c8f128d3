/*
 * The summary as CSV (RFC 4180): one row for each function over all, in each process and in each
 * thread, then what failed, was lost or could not be attached to. One set of columns for all rows;
 * what a row has no value for is empty. doc/summary.md tells every column.
 */
#include "export/summary_int.h"
#include "text/text.h"
#include "model/func.h"

enum column { /* the order of the columns */
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
	      N_COLUMNS
};

static const char *const heads[N_COLUMNS] = {
	"record", "scope",       "pid",      "tid",     "comm",   "layer",  "function", "class",
	"calls",  "errors",      "total_ns", "mean_ns", "p50_ns", "p95_ns", "p99_ns",   "max_ns",
	"bytes",  "inner_calls", "code",     "name",    "count",  "detail"};

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
		put_number(row, COL_TOTAL, f->total_ns);
		if (f->calls) {
			put_number(row, COL_MEAN, f->mean_ns);
			put_number(row, COL_P50, f->p50_ns);
			put_number(row, COL_P95, f->p95_ns);
			put_number(row, COL_P99, f->p99_ns);
			put_number(row, COL_MAX, f->max_ns);
		}
		put_number(row, COL_BYTES, f->bytes);
		put_number(row, COL_INNER, f->inner);
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

void gs_summary_csv(struct gs_pen *pen, const struct gs_summary *s,
		    const struct gs_summary_style *style GS_UNUSED)
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
	put_errors(&row, s);
	put_lost(&row, s);
	put_attach_failures(&row, s);
}
