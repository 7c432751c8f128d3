/* Whose a line of Python code is. */
#ifndef GS_PIPELINE_CORRELATE_LINE_H
#define GS_PIPELINE_CORRELATE_LINE_H

#include "model/trace/dict.h"

/* True for files of the standard library, of installed packages and of the import machinery: where
 * a stack is shown as one line these are passed over, for the line that asked for their work. */
bool gs_line_is_library(const char *file);

/* The innermost frame of a stack that is not of a library, or the innermost one when all are; NULL
 * when the stack is not known or empty. */
const struct gs_rec_frame *gs_line_of_stack(const struct gs_dict *dict, uint32_t stack);

#endif
