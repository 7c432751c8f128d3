/* The log: a line for each message, on standard error or in a file that is turned over by size. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/clock.h"
#include "output/notify/notify_int.h"

struct logfile {
	char path[256]; /* "" standard error */
	int fd;
	off_t max_bytes;
	int max_files;
	bool journal;
};

static int open_file(struct logfile *l)
{
	gs_close_p(&l->fd);
	l->fd = open(l->path,
		     O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK,
		     0640);
	return l->fd < 0 ? -errno : 0;
}

/* FILE.1 becomes FILE.2 and so on, then FILE becomes FILE.1; the oldest goes. */
static void turn_over(struct logfile *l)
{
	char from[300], to[300];

	for (int i = l->max_files; i >= 1; i--) {
		if (i == 1)
			snprintf(from, sizeof(from), "%s", l->path);
		else
			snprintf(from, sizeof(from), "%s.%d", l->path, i - 1);
		snprintf(to, sizeof(to), "%s.%d", l->path, i);
		(void)rename(from, to); /* there may be fewer */
	}
	if (l->max_files == 0)
		(void)unlink(l->path);
}

static int write_all(int fd, const uint8_t *data, size_t bytes)
{
	while (bytes) {
		ssize_t n = write(fd, data, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data += n;
		bytes -= (size_t)n;
	}
	return 0;
}

static int send_one(void *ctx, const struct gs_alert_message *m, const atomic_bool *stop,
		    struct gs_err *err)
{
	struct logfile *l = ctx;
	GS_CLEANUP(gs_buf_fini) struct gs_buf line = GS_BUF_INIT(1 << 14);
	struct stat st, there;
	int r = gs_notify_payload_line(m, (int64_t)gs_clock_wall_ns(), l->journal, &line);

	(void)stop;
	if (r < 0)
		return gs_err_set(err, r, "no memory for the message");
	if (!l->path[0])
		return write_all(STDERR_FILENO, line.data, line.bytes) < 0
			       ? gs_err_set(err, -EIO, "standard error cannot be written")
			       : 0;
	/* Another program that rotates logs (logrotate) has moved it away: then a new one. */
	if (l->fd < 0 || fstat(l->fd, &st) < 0 || stat(l->path, &there) < 0 ||
	    st.st_ino != there.st_ino || st.st_dev != there.st_dev)
		r = open_file(l);
	if (r == 0 && fstat(l->fd, &st) == 0 && st.st_size &&
	    st.st_size + (off_t)line.bytes > l->max_bytes) {
		turn_over(l);
		r = open_file(l);
	}
	if (r == 0)
		r = write_all(l->fd, line.data, line.bytes);
	return r < 0 ? gs_err_set(err, r, "%s: %s", l->path, strerror(-r)) : 0;
}

static void free_log(void *ctx)
{
	struct logfile *l = ctx;

	gs_close_p(&l->fd);
	free(l);
}

int gs_notify_logfile_open(const struct gs_alert_conf *c, struct gs_notify_sender *ret,
			   struct gs_err *err)
{
	struct logfile *l = calloc(1, sizeof(*l));
	int r = 0;

	if (!l)
		return -ENOMEM;
	l->fd = -1;
	snprintf(l->path, sizeof(l->path), "%s", c->log.file);
	l->max_bytes = (off_t)c->log.max_mb * 1000000;
	l->max_files = (int)c->log.max_files;
	/* sd-daemon(3): the journal reads "<N>" at the start of a line as its priority. */
	l->journal = !l->path[0] && getenv("JOURNAL_STREAM");
	if (l->path[0])
		r = open_file(l);
	if (r < 0) {
		gs_err_set(err, r, "cannot write the log of alerts %s: %s", l->path, strerror(-r));
		free_log(l);
		return r;
	}
	*ret = (struct gs_notify_sender){
		.name = "log", .send = send_one, .free = free_log, .ctx = l};
	return 0;
}
