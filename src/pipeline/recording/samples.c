/* The records around samples: what a recording without calls begins and ends with. */
#include <errno.h>
#include <string.h>

#include "pipeline/recording/recording.h"

int gs_recording_put_samples_begin(struct gs_buf *out, const struct gs_recording_samples *about)
{
	const char *texts[] = {about->host, about->command, about->kernel};
	struct gs_rec_session *s = gs_record_put(out, GS_REC_SESSION, sizeof(*s), 0);
	int r = s ? 0 : -ENOMEM;

	if (r < 0)
		return r;
	s->version = GS_RECORD_VERSION;
	s->mode = GS_SESSION_SAMPLES;
	s->start_ns = about->start_ns;
	s->wall_minus_boot_ns = about->wall_minus_boot_ns;
	s->host_str = 1;
	s->command_str = 2;
	s->kernel_str = about->kernel ? 3 : 0;
	for (uint32_t i = 0; r == 0 && i < sizeof(texts) / sizeof(texts[0]); i++)
		if (texts[i])
			r = gs_record_put_string(out, i + 1, texts[i], strlen(texts[i]));
	return r;
}

int gs_recording_put_samples_end(struct gs_buf *out, uint64_t end_ns)
{
	struct gs_rec_end *e = gs_record_put(out, GS_REC_END, sizeof(*e), 0);

	if (!e)
		return -ENOMEM;
	e->end_ns = end_ns;
	e->exit_status = -1;
	return 0;
}
