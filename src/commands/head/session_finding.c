/* gpuscope session findings: what a head found of jobs over many nodes, as a table or as JSON. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "commands/head/session.h"
#include "core/text/doc.h"
#include "core/text/json.h"
#include "core/text/text.h"

#define PAGE         1000
#define DOCUMENT_MAX (256u << 20) /* of all findings */

struct list {
	bool json;
	struct gs_buf out; /* JSON; or lines */
	uint64_t n;
};

static int put_line(struct list *l, const Gpuscope__V1__Finding *f)
{
	time_t s = (time_t)(f->begin_wall_ns / 1000000000);
	char began[32];
	struct tm tm;
	int r;

	localtime_r(&s, &tm);
	strftime(began, sizeof(began), "%Y-%m-%d %H:%M:%S", &tm);
	r = gs_buf_printf(&l->out, "%s  %-5s  ", began, f->end_wall_ns ? "ended" : "holds");
	if (r == 0 && f->job[0])
		r = gs_buf_puts(&l->out, "job ");
	if (r == 0 && f->job[0])
		r = gs_text_line(&l->out, f->job);
	if (r == 0 && f->job[0])
		r = gs_buf_puts(&l->out, ": ");
	if (r == 0)
		r = gs_text_line(&l->out, f->text);
	return r == 0 ? gs_buf_puts(&l->out, "\n") : r;
}

static int put_page(struct list *l, const Gpuscope__V1__Findings *page)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < page->n_findings; i++, l->n++) {
		const Gpuscope__V1__Finding *f = page->findings[i];

		if (l->json)
			gs_json_spelled(&l->out, NULL, f->document.data, f->document.len);
		else
			r = put_line(l, f);
	}
	return r < 0 ? r : l->out.r;
}

static int read_pages(struct list *l, const char *job, struct remote *remote, struct gs_err *err)
{
	Gpuscope__V1__FindingQuery q = GPUSCOPE__V1__FINDING_QUERY__INIT;
	int r;

	q.job = (char *)(job ? job : "");
	q.limit = PAGE;
	do {
		Gpuscope__V1__Findings *page;

		r = remote_call(remote, "/gpuscope.v1.Control/ListFindings", &q.base,
				&gpuscope__v1__findings__descriptor, &page, err);
		if (r < 0)
			return r;
		r = put_page(l, page);
		q.after = page->next;
		gpuscope__v1__findings__free_unpacked(page, NULL);
	} while (r == 0 && q.after);
	return r < 0 ? gs_err_set(err, r, "no memory for the findings") : 0;
}

int session_show_findings(const char *job, bool json, struct remote *remote, struct gs_err *err)
{
	struct list l = {.json = json, .out = GS_BUF_INIT(DOCUMENT_MAX)};
	int r;

	if (json) {
		gs_json_open(&l.out, NULL, '{');
		gs_json_u64(&l.out, "version", GS_DOC_VERSION);
		gs_json_open(&l.out, "findings", '[');
	}
	r = read_pages(&l, job, remote, err);
	if (json) {
		gs_json_close(&l.out, ']');
		gs_json_close(&l.out, '}');
		(void)gs_buf_puts(&l.out, "\n");
	} else if (!l.n) {
		(void)gs_buf_puts(&l.out, "no findings\n");
	}
	if (r == 0 &&
	    (fwrite(l.out.data, 1, l.out.bytes, stdout) != l.out.bytes || fflush(stdout) != 0))
		r = gs_err_set(err, -EIO, "cannot write the findings");
	gs_buf_fini(&l.out);
	return r;
}
