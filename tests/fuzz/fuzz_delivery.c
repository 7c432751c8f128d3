/* Reports of jobs as anybody may send them to a head: what is taken is bounded, whole and steers
 * nothing. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/job_report/delivery.h"
#include "replay_main.h"
#include "core/scrub/scrub.h"

static void is_clean(const char *text, size_t bytes)
{
	assert(strnlen(text, bytes) < bytes);
	for (; *text; text++)
		assert((unsigned char)*text >= 0x20 && *text != 0x7f);
}

/* A document that was taken can be shown to whoever asks. */
static void hide(const char *text, size_t bytes, bool all_of_them)
{
	char *shown = NULL;

	if (gs_scrub_json(text, bytes, all_of_them, &shown) < 0 || !shown[0])
		abort();
	free(shown);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct gs_job_report_delivery d;
	struct gs_err err = {{0}};
	/* Of the exact size, without a zero behind it. */
	char *copy = malloc(bytes ? bytes : 1);

	if (!copy)
		abort();
	memcpy(copy, data, bytes);
	if (gs_job_report_delivery_read(&d, copy, bytes, &err) < 0) {
		assert(err.text[0]);
	} else {
		assert(d.report[0] && d.job[0] && d.begin_wall_ns > 0 &&
		       d.end_wall_ns >= d.begin_wall_ns &&
		       strcmp(gs_job_report_delivery_state_name(d.state), "unknown") != 0);
		is_clean(d.report, sizeof(d.report));
		is_clean(d.source, sizeof(d.source));
		is_clean(d.kind, sizeof(d.kind));
		is_clean(d.job, sizeof(d.job));
		is_clean(d.user, sizeof(d.user));
		is_clean(d.name, sizeof(d.name));
		is_clean(d.job_class, sizeof(d.job_class));
		hide(copy, bytes, false);
		hide(copy, bytes, true);
	}
	free(copy);
	return 0;
}
