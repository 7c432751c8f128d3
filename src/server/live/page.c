/* The page: files of web/ that the build put into this program (page_files.h). */
#include "server/live/live_int.h"

#include <string.h>

#include "page_files.h"

/* Nothing from elsewhere, nothing inline: what a name of a process might smuggle in does not run.
 */
#define POLICY                                                                                     \
	"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

LIVE_HANDLER(live_page)
{
	const char *name = q->param[0] ? q->param[0] : "index.html";

	for (size_t i = 0; i < GS_ARRAY_LEN(page_files); i++) {
		const struct page_file *f = &page_files[i];

		if (strcmp(f->name, name) != 0)
			continue;
		reply->type = f->type;
		reply->etag = f->etag;
		reply->policy = POLICY;
		(void)gs_buf_put(&reply->body, f->data, f->bytes);
		return;
	}
	gs_http_error(reply, 404, "the page has no such file");
}
