/* ListSteps: steps of the ranks of jobs over many nodes, side by side. */
#include "core/base/clock.h"
#include "gpuscope.pb-c.h"
#include "server/finding/finding.h"
#include "server/head/head_int.h"

#define LIMIT     100 /* ranks, when nothing else is asked for */
#define LIMIT_MAX 500
#define BYTES_MAX (2u << 20) /* of text, and of the document */

struct answer {
	struct gs_buf text, document;
};

static void add_steps(void *ctx, const struct gs_fleet_steps *steps)
{
	struct answer *a = ctx;

	gs_fleet_put_steps_text(&a->text, steps, (int64_t)gs_clock_wall_ns());
	gs_finding_put_steps(&a->document, steps);
}

void head_steps_list(struct gs_head *h, struct gs_grpc_call *call, const void *query)
{
	const Gpuscope__V1__StepQuery *m = query;
	uint32_t limit = m->limit ? m->limit : LIMIT;
	struct answer a = {GS_BUF_INIT(BYTES_MAX), GS_BUF_INIT(BYTES_MAX)};
	Gpuscope__V1__Steps out = GPUSCOPE__V1__STEPS__INIT;

	(void)gs_buf_puts(&a.document, "[");
	(void)gs_head_steps(h, m->job, limit < LIMIT_MAX ? limit : LIMIT_MAX, add_steps, &a);
	(void)gs_buf_puts(&a.document, "]");
	(void)gs_buf_put(&a.text, "", 1);
	out.text = (char *)a.text.data;
	out.document = (ProtobufCBinaryData){a.document.bytes, a.document.data};
	if (a.text.r < 0 || a.document.r < 0)
		gs_grpc_call_finish(call, GS_GRPC_RESOURCE_EXHAUSTED,
				    "too many steps, or no memory");
	else
		gs_head_reply(call, &out.base);
	gs_buf_fini(&a.text);
	gs_buf_fini(&a.document);
}
