/* Among the files that render GPUs. */
#ifndef GS_OUTPUT_REPORT_GPU_INT_H
#define GS_OUTPUT_REPORT_GPU_INT_H

#include "core/text/doc.h"
#include "output/node_report/gpu.h"
#include "core/text/page.h"

/* A named value of a flat row; numbers that are not there are texts that are not there. */
struct gs_report_gpu_cell {
	const char *name;
	bool number;
	double value;
	const char *text; /* NULL: null, or an empty cell */
};

#define GS_GPU_CELLS_MAX (GS_GPU_FIELD_COUNT + 24)

/* One row of a part of a view; how many cells. texts is room for texts made on the way. */
unsigned gs_report_gpu_row_device(const struct gs_gpu_snapshot *s, unsigned gpu,
				  const struct gs_report_gpu_style *style,
				  struct gs_report_gpu_cell *cells, char texts[][32]);
unsigned gs_report_gpu_row_process(const struct gs_gpu_snapshot *s, unsigned process,
				   const struct gs_report_gpu_style *style,
				   struct gs_report_gpu_cell *cells, char texts[][32]);

/* A value for people, "-" when it is not there. */
const char *gs_report_gpu_value_text(char out[32], const struct gs_gpu_sample *s, unsigned field);

void gs_report_gpu_doc(struct gs_doc *doc, const struct gs_gpu_snapshot *s,
		       const struct gs_report_gpu_style *style);
void gs_report_gpu_table(struct gs_page *page, const struct gs_gpu_snapshot *s,
			 const struct gs_report_gpu_style *style);
void gs_report_gpu_scroll(struct gs_page *page, const struct gs_gpu_snapshot *s,
			  const struct gs_report_gpu_style *style);

#endif
