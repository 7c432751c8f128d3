/*
 * The file of a trace writer. When a write fails (no space, a limit on the size of files, a
 * reader that went away), the file is cut back to the end of the last whole record that fits,
 * so that what was written can be read; from then on every call returns that error.
 */
#include "output/trace_export/export_int.h"

#include <errno.h>
#include <signal.h>
#include <time.h>
#include <zlib.h>

#include "core/base/mem.h"

#define GZIP_WINDOW 31 /* 15 bits of window, and a gzip header */
#define GZIP_MEMORY 8

/*
 * The compressed file. Each buffer of records becomes blocks that end at a whole byte, so that one can
 * read a file that still grows, or that was cut, up to there.
 */
struct gs_export_gzip {
	z_stream z;
	uint8_t data[GS_EXPORT_OUT_BYTES +
		     (64u << 10)]; /* more than the bytes of a buffer become */
};

static void free_gzip(struct gs_export_gzip **ref)
{
	if (*ref)
		deflateEnd(&(*ref)->z);
	gs_free_p(ref);
}

static struct gs_export_gzip *new_gzip(void)
{
	struct gs_export_gzip *g = calloc(1, sizeof(*g));

	/* The fastest level: a trace is compressed by the thread that drains the kernel's ring. */
	if (g && deflateInit2(&g->z, Z_BEST_SPEED, Z_DEFLATED, GZIP_WINDOW, GZIP_MEMORY,
			      Z_DEFAULT_STRATEGY) != Z_OK)
		gs_free_p(&g);
	return g;
}

/* Compresses into g->data; the number of bytes there, or a negative errno. */
static ssize_t deflate_bytes(struct gs_export_gzip *g, uint8_t *data, size_t bytes, int flush)
{
	g->z.next_in = data;
	g->z.avail_in = (uInt)bytes;
	g->z.next_out = g->data;
	g->z.avail_out = sizeof(g->data);
	if (deflate(&g->z, flush) < 0 || g->z.avail_in)
		return -EIO;
	return (ssize_t)(sizeof(g->data) - g->z.avail_out);
}

int gs_export_out_open(struct gs_export_out *out, const char *path, unsigned flags, bool gzip,
		       struct gs_err *err)
{
	GS_FREE uint8_t *buf = malloc(GS_EXPORT_OUT_BYTES);
	GS_CLEANUP(free_gzip) struct gs_export_gzip *g = gzip ? new_gzip() : NULL;
	struct gs_output file;
	int r;

	if (!buf || (gzip && !g))
		return gs_err_set(err, -ENOMEM, "no memory to write %s",
				  path ? path : "standard output");
	r = gs_output_open(path, flags, &file, err);
	if (r == 0)
		*out = (struct gs_export_out){
			.file = file, .is_stdout = !path, .buf = gs_take(buf), .gzip = gs_take(g)};
	return r;
}

/* write() whose failure is an error and not a signal: SIGXFSZ and SIGPIPE end a process that has
 * not asked for it, and this room may not decide for the whole process what they do. */
static ssize_t write_quietly(int fd, const void *data, size_t bytes)
{
	static const struct timespec at_once;
	sigset_t caught, before, pending;
	ssize_t n;
	int error;

	sigemptyset(&caught);
	sigaddset(&caught, SIGXFSZ);
	sigaddset(&caught, SIGPIPE);
	sigpending(&pending);
	pthread_sigmask(SIG_BLOCK, &caught, &before);
	n = write(fd, data, bytes);
	error = errno;
	if (n < 0 && (error == EFBIG || error == EPIPE)) {
		int sig = error == EFBIG ? SIGXFSZ : SIGPIPE;

		/* One that was waiting before is not ours to take. */
		if (!sigismember(&pending, sig)) {
			sigemptyset(&caught);
			sigaddset(&caught, sig);
			sigtimedwait(&caught, NULL, &at_once);
		}
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	errno = error;
	return n;
}

/* The end of the last record within the bytes that were written, leaving room for last words. */
static void cut_at_record(struct gs_export_out *out, size_t written_bytes)
{
	size_t keep = 0;

	for (uint32_t i = 0; i < out->n_marks; i++)
		if (out->marks[i] + 64 <= written_bytes)
			keep = out->marks[i];
	out->file_bytes += keep;
	/* A pipe or a device cannot be cut; nothing is lost by trying. */
	if (!out->is_stdout && ftruncate(out->file.fd, (off_t)out->file_bytes) < 0)
		return;
}

/* Writes all of it, or keeps what is whole of it. Returns how much was written. */
static size_t write_all(struct gs_export_out *out, const uint8_t *data, size_t bytes)
{
	size_t done = 0;

	while (!out->error && done < bytes) {
		ssize_t n = write_quietly(out->file.fd, data + done, bytes - done);

		if (n >= 0)
			done += (size_t)n;
		else if (errno != EINTR)
			out->error = -errno;
		if (out->error)
			cut_at_record(out, done);
	}
	return done;
}

static size_t flush_gzip(struct gs_export_out *out, int flush)
{
	ssize_t n = deflate_bytes(out->gzip, out->buf, out->used_bytes, flush);

	out->n_marks = 0; /* of what is not compressed: a buffer is kept whole or not at all */
	if (n < 0)
		out->error = (int)n;
	return n < 0 ? 0 : write_all(out, out->gzip->data, (size_t)n);
}

int gs_export_out_flush(struct gs_export_out *out)
{
	size_t done = 0;

	if (!out->error && out->gzip && out->used_bytes)
		done = flush_gzip(out, Z_SYNC_FLUSH);
	else if (!out->error)
		done = write_all(out, out->buf, out->used_bytes);
	if (!out->error)
		out->file_bytes += done;
	out->used_bytes = 0;
	out->n_marks = 0;
	return out->error;
}

void gs_export_out_last_words(struct gs_export_out *out, const char *text)
{
	/* After a cut the compressor is past what the file has: gunzip gives what is whole. */
	if (out->gzip || out->is_stdout ||
	    lseek(out->file.fd, (off_t)out->file_bytes, SEEK_SET) < 0)
		return;
	if (write_quietly(out->file.fd, text, strlen(text)) < 0)
		return; /* the error that counts is the one before */
}

int gs_export_out_close(struct gs_export_out *out, struct gs_err *err)
{
	int flushed, r;

	if (out->gzip && !out->error)
		out->file_bytes += flush_gzip(out, Z_FINISH);
	else
		(void)gs_export_out_flush(out);
	flushed = out->error;
	r = gs_output_close(&out->file, flushed, err);
	gs_free_p(&out->buf);
	free_gzip(&out->gzip);
	return flushed < 0 ? gs_err_set(err, r, "cannot write %s: %s", out->file.path, strerror(-r))
			   : r;
}

void gs_export_out_commit(struct gs_export_out *out, const void *end)
{
	size_t used = (size_t)((const uint8_t *)end - out->buf);
	uint32_t last = out->n_marks ? out->marks[out->n_marks - 1] : 0;

	out->used_bytes = used;
	if (used - last >= GS_EXPORT_OUT_MARK_BYTES && out->n_marks < GS_ARRAY_LEN(out->marks))
		out->marks[out->n_marks++] = (uint32_t)used;
}
