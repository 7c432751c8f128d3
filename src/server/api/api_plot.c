/*
 * Figures of a session (output/plot), drawn on a thread that reads the store. A figure takes memory
 * by the number of GPUs, so there are few at a time, and of not too many GPUs.
 */
#include "server/api/api_int.h"

#include <errno.h>
#include <string.h>

#include "server/session_export/session_export.h"
#include "core/base/clock.h"
#include "output/plot/plot.h"

#define PLOTS_MAX 2   /* at a time */
#define GPUS_MAX  512 /* 64 MiB; and no eye distinguishes more of them */

struct plot_request {
	char session[GS_STORE_SESSION_NAME_BYTES];
	char suffix[8]; /* ".svg" */
	unsigned panels;
	int64_t node;
	/* while it is made */
	struct gs_plot *plot;
	uint64_t until_ns;
};

static int add_sample(void *ctx, const struct gs_node_snapshot *snapshot,
		      const struct gs_rollup_mark *mark)
{
	struct plot_request *p = ctx;
	struct gs_plot_stats st;
	int r = gs_plot_add(p->plot, snapshot, mark);

	if (r < 0)
		return r;
	gs_plot_stats(p->plot, &st);
	if (st.n_devices > GPUS_MAX)
		return -E2BIG;
	return gs_clock_mono_ns() > p->until_ns ? -ETIME : 0;
}

static int draw_plot(struct plot_request *p, const struct gs_session_export_options *o,
		     struct gs_buf *out, struct gs_err *err)
{
	struct gs_plot_options po = {
		.size = sizeof(po), .panels = p->panels, .title = o->session->name};
	char title[GS_STORE_SESSION_NAME_BYTES + 96];
	int r;

	p->plot = gs_plot_new(&po);
	p->until_ns = gs_clock_mono_ns() + API_READ_NS;
	r = p->plot ? gs_session_export_samples(o, add_sample, p, NULL, err) : -ENOMEM;
	if (r == -ETIME) {
		snprintf(title, sizeof(title),
			 "%s (only its beginning: all of it takes too long to read; export it)",
			 o->session->name);
		gs_plot_set_title(p->plot, title);
		r = 0;
	}
	if (r == -E2BIG)
		return gs_err_set(
			err, r,
			"this session has more than %d GPUs: choose one node, or export it and plot with `gpuscope report FILE --plot X.pdf`",
			GPUS_MAX);
	return r == 0 ? gs_plot_render(p->plot, p->suffix, out, err) : r;
}

static int status_of(int r)
{
	switch (r) {
	case -ENOENT:
	case -ENODATA:
		return 404;
	case -E2BIG:
	case -ENOBUFS:
		return 413;
	case -ENOPKG:
		return 501;
	default:
		return gs_live_status_of(r);
	}
}

static const char *type_of(const char *suffix)
{
	return strcmp(suffix, ".pdf") == 0   ? "application/pdf"
	       : strcmp(suffix, ".png") == 0 ? "image/png"
					     : "image/svg+xml";
}

static void make_plot(struct api_task *t)
{
	struct plot_request *p = t->arg;
	struct gs_http_reply reply = gs_http_reply_new(t->later);
	struct gs_store_session session;
	struct gs_session_export_options o = {.size = sizeof(o),
					      .store = t->store,
					      .session = &session,
					      .format = GS_SESSION_EXPORT_GST,
					      .node = p->node};
	int r = gs_store_session_get(t->store, p->session, &session);

	if (r == -ENOENT)
		(void)gs_err_set(&t->err, r, "no session has this name or id");
	if (r == 0)
		r = draw_plot(p, &o, &reply.body, &t->err);
	if (r < 0) {
		gs_buf_reset(&reply.body);
		gs_http_error(&reply, status_of(r), gs_err_text(&t->err, r));
	} else {
		reply.type = type_of(p->suffix);
		reply.no_compression = strcmp(p->suffix, ".svg") != 0;
		api_file_name(session.name, p->suffix, reply.file_name, sizeof(reply.file_name));
	}
	gs_plot_free(&p->plot);
	gs_http_answer(&t->later, &reply);
}

static bool parse_query(const struct gs_http_request *q, struct gs_http_reply *reply,
			struct plot_request *p)
{
	char format[8], panels[128], *next;
	double node = 0;

	if (gs_http_query(q, "format", format, sizeof(format)) == 0)
		strcpy(format, "svg");
	snprintf(p->suffix, sizeof(p->suffix), ".%s", format);
	if (strcmp(format, "svg") != 0 && strcmp(format, "png") != 0 &&
	    strcmp(format, "pdf") != 0) {
		gs_http_error(reply, 400, "format must be svg, png or pdf");
		return false;
	}
	if (gs_live_number(q, reply, "node", 1, 9e15, &node) < 0)
		return false;
	p->node = (int64_t)node;
	if (gs_http_query(q, "panels", panels, sizeof(panels)) < 0)
		strcpy(panels, "?");
	for (char *w = strtok_r(panels, ",", &next); w; w = strtok_r(NULL, ",", &next)) {
		unsigned panel = gs_plot_panel_by_name(w);

		p->panels |= panel;
		if (panel)
			continue;
		gs_http_error(
			reply, 400,
			"panels are utilization, bubble, memory, dram, pcie, nvlink, power, devices, with commas");
		return false;
	}
	return true;
}

GS_API_HANDLER(api_session_plot)
{
	struct plot_request asked = {0}, *p;

	if (!parse_query(q, reply, &asked))
		return;
	if (strlen(q->param[0]) >= sizeof(asked.session)) {
		gs_http_error(reply, 404, "no session has this name or id");
		return;
	}
	strcpy(asked.session, q->param[0]);
	p = malloc(sizeof(*p));
	if (!p) {
		gs_http_error(reply, 503, "out of memory; try again later");
		return;
	}
	*p = asked;
	api_task_start_few(ctx, reply, make_plot, p, PLOTS_MAX);
}
