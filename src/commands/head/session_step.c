/* gpuscope session steps: steps of the ranks of jobs over many nodes side by side, as tables or as JSON. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "commands/head/session.h"
#include "core/base/mem.h"
#include "core/text/doc.h"
#include "core/text/json.h"
#include "core/text/text.h"

#define DOCUMENT_MAX (64u << 20)

/* Names in it were written by nodes. */
static int put_lines(struct gs_buf *out, const char *text)
{
	GS_FREE char *lines = strdup(text);
	char *rest = lines, *line;
	int r = lines ? 0 : -ENOMEM;

	while (r == 0 && rest && *rest) {
		line = strsep(&rest, "\n");
		r = gs_text_line(out, line);
		if (r == 0)
			r = gs_buf_puts(out, "\n");
	}
	return r;
}

static int put_steps(struct gs_buf *out, const Gpuscope__V1__Steps *steps, bool json)
{
	if (!json)
		return *steps->text ? put_lines(out, steps->text) : gs_buf_puts(out, "no steps\n");
	gs_json_open(out, NULL, '{');
	gs_json_u64(out, "version", GS_DOC_VERSION);
	gs_json_spelled(out, "steps", steps->document.data, steps->document.len);
	gs_json_close(out, '}');
	return gs_buf_puts(out, "\n");
}

int session_show_steps(const char *job, bool json, struct remote *remote, struct gs_err *err)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf out = GS_BUF_INIT(DOCUMENT_MAX);
	Gpuscope__V1__StepQuery q = GPUSCOPE__V1__STEP_QUERY__INIT;
	Gpuscope__V1__Steps *steps;
	int r;

	q.job = (char *)(job ? job : "");
	r = remote_call(remote, "/gpuscope.v1.Control/ListSteps", &q.base,
			&gpuscope__v1__steps__descriptor, &steps, err);
	if (r < 0)
		return r;
	r = put_steps(&out, steps, json);
	gpuscope__v1__steps__free_unpacked(steps, NULL);
	if (r < 0)
		return gs_err_set(err, r, "no memory for the steps");
	if (fwrite(out.data, 1, out.bytes, stdout) != out.bytes || fflush(stdout) != 0)
		return gs_err_set(err, -EIO, "cannot write the steps");
	return 0;
}
