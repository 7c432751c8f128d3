/* Passwords, tokens and keys out of files. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/base/secret.h"

static bool is_trusted_owner(uid_t uid)
{
	return uid == 0 || uid == geteuid();
}

/* A user who may change the folder can put another file there. In one like /tmp (sticky) only the
 * file's owner can, who was looked at. */
static int check_folder(const char *path, const char *what, struct gs_err *err)
{
	char copy[PATH_MAX];
	const char *folder;
	struct stat st;

	if (strlen(path) >= sizeof(copy))
		return gs_err_set(err, -ENAMETOOLONG, "cannot read %s %s: %s", what, path,
				  strerror(ENAMETOOLONG));
	strcpy(copy, path);
	folder = dirname(copy);
	if (stat(folder, &st) < 0)
		return gs_err_set(err, -errno, "cannot read %s %s: %s", what, path,
				  strerror(errno));
	if ((st.st_mode & S_IWOTH) && !(st.st_mode & S_ISVTX))
		return gs_err_set(err, -EPERM,
				  "%s %s: everyone can replace files in %s; chmod o-w it", what,
				  path, folder);
	if (!is_trusted_owner(st.st_uid))
		return gs_err_set(
			err, -EPERM,
			"%s %s: its folder belongs to user %u; only root's and your own are trusted",
			what, path, (unsigned)st.st_uid);
	return 0;
}

/* A descriptor of the file, or why not. */
static int open_secret(const char *path, const char *what, struct gs_err *err)
{
	GS_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return gs_err_set(err, -errno, "cannot read %s %s: %s", what, path,
				  strerror(errno));
	if (!S_ISREG(st.st_mode))
		return gs_err_set(err, -EINVAL, "%s %s: not a regular file", what, path);
	if (st.st_mode & (S_IROTH | S_IWOTH | S_IWGRP))
		return gs_err_set(err, -EPERM, "%s %s: others can read or change it; chmod 0600 it",
				  what, path);
	if (!is_trusted_owner(st.st_uid))
		return gs_err_set(
			err, -EPERM,
			"%s %s: belongs to user %u; only root's and your own files are trusted",
			what, path, (unsigned)st.st_uid);
	r = check_folder(path, what, err);
	return r < 0 ? r : gs_take_fd(&fd);
}

int gs_secret_check(const char *path, const char *what, struct gs_err *err)
{
	int fd = open_secret(path, what, err);

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

int gs_secret_load(const char *path, const char *what, char *out, size_t bytes, struct gs_err *err)
{
	GS_CLOSE int fd = open_secret(path, what, err);
	size_t n = 0;
	ssize_t r = 1;

	if (fd < 0)
		return fd;
	while (n < bytes && (r = read(fd, out + n, bytes - n)) != 0) {
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return gs_err_set(err, -errno, "cannot read %s %s: %s", what, path,
					  strerror(errno));
		n += (size_t)r;
	}
	if (n == bytes || memchr(out, '\0', n)) {
		explicit_bzero(out, n);
		return gs_err_set(err, -EINVAL, "%s %s: not a text of less than %zu bytes", what,
				  path, bytes);
	}
	out[n] = '\0';
	return 0;
}

/* A line without its end goes to out. */
static int take_line(const char *path, const char *what, const char *line, char *out, size_t bytes,
		     struct gs_err *err)
{
	size_t n = strcspn(line, "\r\n");

	if (n == 0 || n >= bytes)
		return gs_err_set(err, -EINVAL, "%s %s: a secret has 1 to %zu bytes", what, path,
				  bytes - 1);
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
			return gs_err_set(err, -EINVAL, "%s %s: control characters in it", what,
					  path);
	memcpy(out, line, n);
	out[n] = '\0';
	return 0;
}

int gs_secret_read(const char *path, const char *what, char *out, size_t bytes, struct gs_err *err)
{
	char text[GS_SECRET_FILE_MAX];
	int r = gs_secret_load(path, what, text, sizeof(text), err);

	if (r == 0)
		r = take_line(path, what, text, out, bytes, err);
	explicit_bzero(text, sizeof(text));
	return r;
}

int gs_token_read(const char *path, const char *what, char *out, size_t bytes, struct gs_err *err)
{
	char text[GS_SECRET_FILE_MAX];
	const char *line = text;
	int r = gs_secret_load(path, what, text, sizeof(text), err);

	while (r == 0 && (line[0] == '#' || line[0] == '\r' || line[0] == '\n')) {
		line += strcspn(line, "\n");
		line += *line == '\n';
	}
	if (r == 0)
		r = *line ? take_line(path, what, line, out, bytes, err)
			  : gs_err_set(err, -EINVAL, "%s %s holds no token", what, path);
	explicit_bzero(text, sizeof(text));
	return r;
}
