/* One datagram for each message (sd_notify(3) has the protocol). */
#include "core/base/systemd.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/mem.h"

static void notify_systemd(const char *text)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	GS_CLOSE int fd = -1;
	size_t n = path ? strlen(path) : 0;

	if (n < 2 || n >= sizeof(a.sun_path) || (path[0] != '/' && path[0] != '@'))
		return;
	memcpy(a.sun_path, path, n);
	if (path[0] == '@') /* of the abstract namespace */
		a.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	/* That no socket listens is no reason to end. */
	if (fd >= 0)
		(void)sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&a,
			     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
}

void gs_systemd_ready(void)
{
	notify_systemd("READY=1");
}

void gs_systemd_reloading(void)
{
	char text[96];

	snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%llu",
		 (unsigned long long)gs_clock_mono_ns() / 1000);
	notify_systemd(text);
}

void gs_systemd_stopping(void)
{
	notify_systemd("STOPPING=1");
}

/* --- the watchdog --- */

static uint64_t period_ns(void)
{
	const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	unsigned long long n;
	char *end;

	if (!usec || (pid && strtol(pid, NULL, 10) != (long)getpid()))
		return 0;
	n = strtoull(usec, &end, 10);
	return *end || n > UINT64_MAX / 1000 ? 0 : n * 1000 / 2;
}

void gs_systemd_watchdog_start(struct gs_systemd_watchdog *w)
{
	w->period_ns = period_ns();
	w->next_ns = w->period_ns ? gs_clock_mono_ns() + w->period_ns : UINT64_MAX;
}

bool gs_systemd_watchdog_due(struct gs_systemd_watchdog *w)
{
	uint64_t now = gs_clock_mono_ns();

	if (now < w->next_ns)
		return false;
	w->next_ns = now + w->period_ns;
	return true;
}

void gs_systemd_alive(void)
{
	notify_systemd("WATCHDOG=1");
}
