/* Lines of Python code as texts of trace files. */
#ifndef GS_OUTPUT_TRACE_EXPORT_EXPORT_LINE_H
#define GS_OUTPUT_TRACE_EXPORT_EXPORT_LINE_H

#include "pipeline/correlate/line.h"

/* "file:line function" in at most bytes with its end; the beginning of a long path is left out. */
void gs_export_line_text(const struct gs_dict *dict, const struct gs_rec_frame *frame, char *out,
			 size_t bytes);

#endif
