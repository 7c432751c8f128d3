#include "core/base/err.h"

#include <stdarg.h>
#include <string.h>

int gs_err_set(struct gs_err *err, int code, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return code;
	va_start(ap, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	return code;
}

int gs_err_prefix(struct gs_err *err, int code, const char *fmt, ...)
{
	char head[256], tail[sizeof(err->text)];
	va_list ap;

	if (!err)
		return code;
	va_start(ap, fmt);
	vsnprintf(head, sizeof(head), fmt, ap);
	va_end(ap);
	snprintf(tail, sizeof(tail), "%s", gs_err_text(err, code));
	snprintf(err->text, sizeof(err->text), "%s: %.500s", head, tail);
	return code;
}

const char *gs_err_text(const struct gs_err *err, int code)
{
	if (err && err->text[0])
		return err->text;
	return strerror(code < 0 ? -code : code);
}
