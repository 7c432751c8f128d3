/*
 * A recorder in the background. A lock on its file says who it is, not by the number in it:
 * the kernel says who holds a lock (F_GETLK), so that a file that was left behind can never name a
 * process that came later. The number is there for people.
 */
#include "commands/job/job_detach.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commands/common/cli.h"

#define STOP_MS 30000 /* for the last look and the report */

static int ready_fd = -1; /* of the child: the parent waits at its other end */
static int lock_fd = -1;  /* open for as long as the recorder lives */

static int take_lock(const char *pid_file)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	char number[24];
	int n;

	lock_fd = open(pid_file, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (lock_fd < 0) {
		gs_cli_print_message("cannot write %s: %s", pid_file, strerror(errno));
		return -1;
	}
	if (fcntl(lock_fd, F_SETLK, &lock) < 0) {
		gs_cli_print_message("%s: %s", pid_file,
				     errno == EACCES || errno == EAGAIN
					     ? "a recorder already uses this file"
					     : strerror(errno));
		return -1;
	}
	n = snprintf(number, sizeof(number), "%d\n", (int)getpid());
	if (ftruncate(lock_fd, 0) < 0 || write(lock_fd, number, (size_t)n) != n) {
		gs_cli_print_message("cannot write %s: %s", pid_file, strerror(errno));
		return -1;
	}
	return 0;
}

/* The parent's part. */
static int wait_for_child(int fd, pid_t child)
{
	char ready;
	ssize_t n;
	int status;

	while ((n = read(fd, &ready, 1)) < 0 && errno == EINTR)
		;
	close(fd);
	if (n == 1) /* it is ready, and another's child from now on */
		return GS_EXIT_DONE;
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : GS_EXIT_FAILED;
}

int job_detach_fork(const char *pid_file, int *ret_status)
{
	int fds[2];
	pid_t child;

	*ret_status = GS_EXIT_FAILED;
	if (pipe2(fds, O_CLOEXEC) < 0 || (child = fork()) < 0) {
		gs_cli_print_message("cannot start a recorder: %s", strerror(errno));
		return -1;
	}
	if (child > 0) {
		close(fds[1]);
		*ret_status = wait_for_child(fds[0], child);
		return 1;
	}
	close(fds[0]);
	ready_fd = fds[1];
	setsid();
	return take_lock(pid_file);
}

void job_detach_ready(const char *pid_file)
{
	GS_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	GS_CLOSE int log = -1;
	char path[4200];

	snprintf(path, sizeof(path), "%s.log", pid_file);
	unlink(path);
	log = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	(void)dup2(null, STDIN_FILENO);
	(void)dup2(null, STDOUT_FILENO);
	(void)dup2(log >= 0 ? log : null, STDERR_FILENO);
	/* No file system is kept busy by a recorder. */
	if (chdir("/") < 0 || write(ready_fd, "", 1) != 1)
		gs_cli_print_message("the process that started the recorder is gone");
	gs_close_p(&ready_fd);
}

void job_detach_end(int status)
{
	char text[24];
	int n = snprintf(text, sizeof(text), "ended %d\n", status);

	if (lock_fd >= 0 && (ftruncate(lock_fd, 0) < 0 || pwrite(lock_fd, text, (size_t)n, 0) != n))
		gs_cli_print_message("cannot write the file of the recorder: %s", strerror(errno));
}

/* What job_detach_end() wrote; -1: it was killed. */
static int status_at_end(int fd)
{
	char text[24] = "";
	int status;

	if (pread(fd, text, sizeof(text) - 1, 0) < 0 || sscanf(text, "ended %d", &status) != 1)
		return -1;
	return status;
}

static void pass_on_log(const char *pid_file)
{
	char path[4200], text[4096];
	ssize_t n;

	snprintf(path, sizeof(path), "%s.log", pid_file);
	GS_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	while (fd >= 0 && (n = read(fd, text, sizeof(text))) > 0)
		if (write(STDERR_FILENO, text, (size_t)n) < 0)
			break;
	unlink(path);
}

int job_detach_stop(const char *pid_file)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	GS_CLOSE int fd = open(pid_file, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	GS_CLOSE int pidfd = -1;
	struct pollfd end = {.events = POLLIN};
	int r, status;

	if (fd < 0 || fcntl(fd, F_GETLK, &lock) < 0) {
		gs_cli_print_message("%s: %s", pid_file,
				     errno == ENOENT ? "no recorder uses this file"
						     : strerror(errno));
		return GS_EXIT_FAILED;
	}
	if (lock.l_type != F_UNLCK) {
		pidfd = pidfd_open(lock.l_pid, 0);
		if (pidfd < 0 || pidfd_send_signal(pidfd, SIGTERM, NULL, 0) < 0) {
			gs_cli_print_message("cannot end the recorder (process %d): %s",
					     (int)lock.l_pid, strerror(errno));
			return errno == EPERM ? GS_EXIT_NOT_PERMITTED : GS_EXIT_FAILED;
		}
		end.fd = pidfd;
		while ((r = poll(&end, 1, STOP_MS)) < 0 && errno == EINTR)
			;
		if (r == 0) {
			gs_cli_print_message("the recorder (process %d) did not end within %d s",
					     (int)lock.l_pid, STOP_MS / 1000);
			return GS_EXIT_FAILED;
		}
	}
	status = status_at_end(fd);
	pass_on_log(pid_file);
	unlink(pid_file);
	if (status < 0)
		gs_cli_print_message(
			"%s: the recorder was killed; the report is the last one it saved",
			pid_file);
	return status < 0 ? GS_EXIT_FAILED : status;
}
