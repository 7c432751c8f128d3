/* Passwords and tokens out of files. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/secret.h"

/* A descriptor of the file, or why not. */
static int open_secret(const char *path, const char *what, struct gs_err *err)
{
	GS_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return gs_err_set(err, -errno, "cannot read %s %s: %s", what, path,
				  strerror(errno));
	if (st.st_mode & (S_IROTH | S_IWOTH))
		return gs_err_set(err, -EPERM, "%s %s: everybody may read or write it; chmod o= it",
				  what, path);
	return gs_take_fd(&fd);
}

int gs_secret_check(const char *path, const char *what, struct gs_err *err)
{
	int fd = open_secret(path, what, err);

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

int gs_secret_read(const char *path, const char *what, char *out, size_t bytes, struct gs_err *err)
{
	GS_CLOSE int fd = open_secret(path, what, err);
	ssize_t n;

	if (fd < 0)
		return fd;
	n = read(fd, out, bytes - 1);
	if (n < 0)
		return gs_err_set(err, -errno, "cannot read %s %s: %s", what, path,
				  strerror(errno));
	out[n] = '\0';
	out[strcspn(out, "\r\n")] = '\0';
	if (!out[0] || (size_t)n == bytes - 1)
		return gs_err_set(err, -EINVAL, "%s %s: its first line must have 1 to %zu bytes",
				  what, path, bytes - 2);
	for (const char *c = out; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			return gs_err_set(err, -EINVAL, "%s %s: control characters in it", what,
					  path);
	return 0;
}

int gs_token_read(const char *path, const char *what, char *out, size_t bytes, struct gs_err *err)
{
	GS_FCLOSE FILE *f = fopen(path, "re");
	char line[512];

	if (!f)
		return gs_err_set(err, -errno, "cannot read %s %s: %s", what, path,
				  strerror(errno));
	while (fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\r\n")] = 0;
		if (!line[0] || line[0] == '#')
			continue;
		snprintf(out, bytes, "%s", line);
		explicit_bzero(line, sizeof(line));
		return 0;
	}
	return gs_err_set(err, -EINVAL, "%s %s holds no token", what, path);
}
