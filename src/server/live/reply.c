/* What requests say, and how answers are written. */
#include "server/live/reply.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/text/text.h"

#define LIMIT_DEFAULT 100
#define LIMIT_MAX     2000

struct gs_buf *gs_live_json(struct gs_http_reply *reply)
{
	reply->type = "application/json";
	return &reply->body;
}

int gs_live_status_of(int r)
{
	switch (-r) {
	case EINVAL:
		return 400;
	case ENOENT:
		return 404;
	case EEXIST:
	case EALREADY:
	case EBUSY:
		return 409;
	case ENOSPC:
		return 507;
	case ENOMEM:
	case ESHUTDOWN:
		return 503;
	default:
		return 500;
	}
}

void gs_live_put_next(struct gs_buf *b, uint64_t total, uint64_t next)
{
	j_u64(b, "total", total);
	if (next < total)
		j_u64(b, "next", next);
	else
		j_null(b, "next");
}

void gs_live_fail(struct gs_http_reply *reply, int r, const struct gs_err *err)
{
	const char *text = err && err->text[0] ? err->text : strerror(-r);
	struct gs_buf clean = GS_BUF_INIT(4096);

	/* Names of others may be in it. */
	if (gs_text_utf8(&clean, text) == 0 && gs_buf_put(&clean, "", 1) == 0)
		text = (const char *)clean.data;
	gs_http_error(reply, gs_live_status_of(r), text);
	gs_buf_fini(&clean);
}

int gs_live_number(const struct gs_http_request *q, struct gs_http_reply *reply, const char *name,
		   double least, double most, double *ret_value)
{
	char text[40], why[160], *end;
	int r = gs_http_query(q, name, text, sizeof(text));
	double v;

	if (r == 0)
		return 0;
	v = r < 0 ? NAN : strtod(text, &end);
	if (r == 1 && text[0] && !*end && v >= least && v <= most) {
		*ret_value = v;
		return 1;
	}
	snprintf(why, sizeof(why), "%s is a number from %.15g to %.15g", name, least, most);
	gs_http_error(reply, 400, why);
	return -EINVAL;
}

size_t gs_live_limit(const struct gs_http_request *q, struct gs_http_reply *reply)
{
	double v = LIMIT_DEFAULT;

	return gs_live_number(q, reply, "limit", 1, LIMIT_MAX, &v) < 0 ? 0 : (size_t)v;
}
