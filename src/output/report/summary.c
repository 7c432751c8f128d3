/* The formats of a summary. */
#include "output/report/summary.h"

#include <errno.h>
#include <string.h>

#include "output/report/summary_int.h"

static void put_doc(struct gs_pen *pen, const struct gs_summary *summary,
		    const struct gs_report_summary_style *style, const struct gs_doc_ops *ops)
{
	struct gs_doc doc = {.ops = ops, .pen = pen};

	gs_report_summary_doc(&doc, summary, style);
	gs_pen_puts(pen, "\n");
}

static void put_json(struct gs_pen *pen, const struct gs_summary *summary,
		     const struct gs_report_summary_style *style)
{
	put_doc(pen, summary, style, &gs_doc_json);
}

static void put_yaml(struct gs_pen *pen, const struct gs_summary *summary,
		     const struct gs_report_summary_style *style)
{
	put_doc(pen, summary, style, &gs_doc_yaml);
}

static const struct {
	const char *name;
	void (*render)(struct gs_pen *pen, const struct gs_summary *summary,
		       const struct gs_report_summary_style *style);
} formats[] = {
	[GS_SUMMARY_TABLE] = {"table", gs_report_summary_table},
	[GS_SUMMARY_JSON] = {"json", put_json},
	[GS_SUMMARY_CSV] = {"csv", gs_report_summary_csv},
	[GS_SUMMARY_YAML] = {"yaml", put_yaml},
};

int gs_report_summary_format_parse(const char *name, enum gs_report_summary_format *ret_format)
{
	for (size_t i = 0; i < GS_ARRAY_LEN(formats); i++)
		if (strcmp(name, formats[i].name) == 0) {
			*ret_format = (enum gs_report_summary_format)i;
			return 0;
		}
	return -EINVAL;
}

int gs_report_summary_view_parse(const char *name, enum gs_summary_view *ret_view)
{
	static const char *const names[] = {
		[GS_SUMMARY_PROCESSES] = "process", [GS_SUMMARY_THREADS] = "thread",
		[GS_SUMMARY_STREAMS] = "stream",    [GS_SUMMARY_OPERATORS] = "operator",
		[GS_SUMMARY_LINES] = "line",        [GS_SUMMARY_KERNELS] = "kernel",
		[GS_SUMMARY_MEMORY] = "memory"};

	for (size_t i = GS_SUMMARY_PROCESSES; i < GS_ARRAY_LEN(names); i++)
		if (strcmp(name, names[i]) == 0) {
			*ret_view = (enum gs_summary_view)i;
			return 0;
		}
	return -EINVAL;
}

int gs_report_summary_write(FILE *out, const struct gs_summary *summary,
			    enum gs_report_summary_format format,
			    const struct gs_report_summary_style *style)
{
	struct gs_pen pen;

	if ((size_t)format >= GS_ARRAY_LEN(formats) || style->size < sizeof(*style))
		return -EINVAL;
	gs_pen_open(&pen, out);
	formats[format].render(&pen, summary, style);
	return gs_pen_close(&pen);
}
