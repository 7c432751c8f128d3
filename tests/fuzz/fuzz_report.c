/* Reports of jobs for a comparison, which anybody may have written. */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "analysis/job_report/compare.h"
#include "replay_main.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct gs_job_report_comparison c = {0};
	struct gs_err err = {{0}};
	int r = gs_job_report_compare_text(&c, "f", (const char *)data, bytes, &err);

	assert(r == 0 || err.text[0]);
	/* What was read before the mistake is compared, too. */
	if (gs_job_report_compare_finish(&c) == 0)
		for (int format = GS_JOB_TABLE; format <= GS_JOB_HTML; format++) {
			struct gs_job_report_style style = {
				.format = (enum gs_job_report_format)format};
			char *text = NULL;
			size_t n;
			FILE *out = open_memstream(&text, &n);

			if (!out)
				break;
			assert(gs_job_report_compare_write(out, &c, &style) == 0);
			fclose(out);
			free(text);
		}
	gs_job_report_comparison_fini(&c);
	return 0;
}
