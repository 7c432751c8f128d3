/* The version of CUPTI from the code of its library, read by a reader (core/reader) for `gpuscope doctor`. */
#ifndef GS_ANALYSIS_DOCTOR_CUPTI_H
#define GS_ANALYSIS_DOCTOR_CUPTI_H

#include "core/reader/reader.h"

/* Serves GS_READER_CUPTI: what cuptiGetVersion() of the file would return, or 0 if its code does not show that. 0 or a
 * negative errno; -EBADMSG: the request is malformed. */
int gs_doctor_serve_cupti(void **state, struct gs_reader_request *request,
			  struct gs_wire_out *reply, struct gs_err *err);

#endif
