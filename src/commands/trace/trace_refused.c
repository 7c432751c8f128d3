/* What reading files of others was refused, in the words of its cause. */
#include "commands/trace/trace.h"

#include "core/base/foreign.h"
#include "core/base/log.h"

/* Reported with the words of the cause, so that equal ones are added up. */
void trace_report_refused(struct trace_output *output, struct gs_guard *guard)
{
	for (unsigned cause = 1; cause < GS_REFUSED_COUNT; cause++) {
		char first[256];
		uint64_t n = gs_guard_refused(guard, cause, first, sizeof(first));

		if (!n)
			continue;
		gs_log(GS_LOG_INFO, GS_LOG_ATTACH, "refused: %s: %llu, the first: %s",
		       gs_refused_words(cause), (unsigned long long)n, first);
		trace_output_loss(output, GS_LAYER_NONE, GS_LOSS_REFUSED, gs_refused_words(cause),
				  n);
	}
}
