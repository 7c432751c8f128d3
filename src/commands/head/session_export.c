/* A session's files, from a head or from its data: whole under their names, or not at all. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "server/session_export/session_export.h"
#include "core/base/output.h"
#include "commands/common/cli.h"
#include "commands/head/session.h"

/* A name that a head gives is a name: it leads nowhere. */
static bool name_is_safe(const char *name)
{
	if (!name[0] || name[0] == '.' || strlen(name) > 255)
		return false;
	for (; *name; name++)
		if (*name == '/' || (unsigned char)*name < 0x20 || *name == 0x7f)
			return false;
	return true;
}

/* r: how it went so far; is_session: it has the samples of the session, not a trace. */
static int close_file(struct gs_output *f, int r, bool is_session, struct gs_err *err)
{
	bool is_open = f->fd >= 0;

	r = gs_output_close(f, r, err);
	if (r == 0 && is_open && is_session)
		gs_cli_report_samples_written(f->path);
	else if (r == 0 && is_open)
		gs_cli_report_written(f->path, NULL);
	return r;
}

static int write_all(int fd, const uint8_t *data, size_t bytes)
{
	while (bytes) {
		ssize_t n = write(fd, data, bytes);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0) {
			data += n;
			bytes -= (size_t)n;
		}
	}
	return 0;
}

static int take_bytes(void *ctx, const void *data, size_t bytes)
{
	return write_all(((const struct gs_output *)ctx)->fd, data, bytes);
}

int session_write_file(const char *name,
		       int (*fill)(void *fill_ctx, session_take take, void *ctx,
				   struct gs_err *err),
		       void *fill_ctx, struct gs_err *err)
{
	struct gs_output f = GS_OUTPUT_INIT;
	int r = name_is_safe(name)
			? gs_output_open(name, 0, &f, err)
			: gs_err_set(err, -EBADMSG, "the head sent an invalid file name");

	if (r == 0)
		r = fill(fill_ctx, take_bytes, &f, err);
	return close_file(&f, r, false, err);
}

/* Where a further file of the export goes: beside the first. */
static void name_beside(const char *first, const char *name, char *out, size_t bytes)
{
	const char *slash = strrchr(first, '/');

	snprintf(out, bytes, "%.*s%s", slash ? (int)(slash - first) + 1 : 0, first, name);
}

/* --- from a head --- */

struct download {
	struct gs_output file;
	const char *out; /* NULL: as the head calls it */
	bool to_stdout;
	unsigned n_files;
	char first[4096];
	struct gs_err *err;
};

static int begin_file(struct download *d, const char *name)
{
	char path[4096];
	int r = close_file(&d->file, 0, d->n_files == 1, d->err);

	if (r < 0)
		return r;
	if (!name_is_safe(name))
		return gs_err_set(d->err, -EBADMSG, "the head sent an invalid file name");
	if (d->to_stdout)
		return d->n_files++ ? gs_err_set(d->err, -ENOTSUP,
						 "this export has several files: give -o FILE")
				    : 0;
	if (d->n_files++)
		name_beside(d->first, name, path, sizeof(path));
	else
		snprintf(path, sizeof(path), "%s", d->out ? d->out : name);
	if (d->n_files == 1)
		snprintf(d->first, sizeof(d->first), "%s", path);
	return gs_output_open(path, 0, &d->file, d->err);
}

static int on_part(void *ctx, const void *message)
{
	struct download *d = ctx;
	const Gpuscope__V1__ExportPart *m = message;
	int r = m->file[0] ? begin_file(d, m->file) : 0;
	int fd = d->to_stdout ? STDOUT_FILENO : d->file.fd;

	if (m->traces_left_out)
		gs_cli_print_message(
			"left out %u trace%s: the head gives them to its own user, or for a token (--token-file)",
			m->traces_left_out, m->traces_left_out == 1 ? "" : "s");
	if (r < 0 || !m->data.len)
		return r;
	if (fd < 0)
		return gs_err_set(d->err, -EBADMSG, "the head sent bytes of no file");
	r = write_all(fd, m->data.data, m->data.len);
	return r < 0 ? gs_err_set(d->err, r, "cannot write %s: %s",
				  d->to_stdout ? "to standard output" : d->file.path, strerror(-r))
		     : 0;
}

int session_export(struct remote *remote, const char *name, unsigned format, const char *out,
		   struct gs_err *err)
{
	Gpuscope__V1__ExportRequest m = GPUSCOPE__V1__EXPORT_REQUEST__INIT;
	struct download d = {.file = GS_OUTPUT_INIT, .err = err};
	int r;

	d.to_stdout = out && strcmp(out, "-") == 0;
	d.out = out;
	m.session = (char *)name;
	m.format = (Gpuscope__V1__ExportFormat)format;
	r = remote_each(remote, "/gpuscope.v1.Control/ExportSession", &m.base,
			&gpuscope__v1__export_part__descriptor, on_part, &d, err);
	return close_file(&d.file, r, d.n_files == 1, err);
}

/* --- from a store --- */

struct traces {
	const struct gs_session_export_options *o;
	const char *first;
	struct gs_err *err;
};

static int write_trace(void *ctx, int64_t stream, const char *name)
{
	const struct traces *t = ctx;
	struct gs_output f = GS_OUTPUT_INIT;
	char path[4096];
	int r;

	name_beside(t->first, name, path, sizeof(path));
	r = gs_output_open(path, 0, &f, t->err);
	if (r == 0)
		r = gs_session_export_trace(t->o, stream, f.fd, t->err);
	return close_file(&f, r, false, t->err);
}

static int export_here(const struct gs_session_export_options *o, const char *out,
		       struct gs_err *err)
{
	char path[4096];
	struct gs_output f = GS_OUTPUT_INIT;
	struct traces t = {.o = o, .first = path, .err = err};
	int r;

	if (out && strcmp(out, "-") == 0)
		return gs_session_export_write(o, STDOUT_FILENO, NULL, err);
	if (out)
		snprintf(path, sizeof(path), "%s", out);
	else
		snprintf(path, sizeof(path), "%s%s", o->session->name,
			 gs_session_export_suffix(o->format));
	r = gs_output_open(path, 0, &f, err);
	if (r == 0)
		r = gs_session_export_write(o, f.fd, NULL, err);
	r = close_file(&f, r, true, err);
	if (r == 0 && o->format == GS_SESSION_EXPORT_GST)
		r = gs_session_export_traces(o, write_trace, &t);
	return r;
}

int session_export_store(const char *dir, const char *name, unsigned format, const char *out,
			 struct gs_err *err)
{
	struct gs_store_session s;
	struct gs_session_export_options o = {
		.size = sizeof(o), .session = &s, .format = (enum gs_session_export_format)format};
	int r = gs_store_open(dir, GS_STORE_READ, &o.store, err);

	if (r < 0)
		return r;
	r = gs_store_session_get(o.store, name, &s);
	if (r == -ENOENT)
		r = gs_err_set(err, -ESRCH, "there is no session \"%s\" in %s", name, dir);
	else if (r < 0)
		(void)gs_err_set(err, r, "cannot read %s: %s", dir, gs_store_trouble(o.store));
	else
		r = export_here(&o, out, err);
	gs_store_close(&o.store);
	return r;
}
