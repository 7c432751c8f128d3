/* What systemd hears, over a real socket of both kinds, and when its watchdog is due. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/systemd.h"

/* A socket of that name ('@': the abstract namespace), which NOTIFY_SOCKET tells. */
static int hear(const char *name)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	memcpy(a.sun_path, name, strlen(name));
	if (name[0] == '@')
		a.sun_path[0] = '\0';
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&a,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name))),
			 0);
	setenv("NOTIFY_SOCKET", name, 1);
	return fd;
}

static const char *heard(int fd)
{
	static char text[256];
	ssize_t n = recv(fd, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	return text;
}

static void says(int fd)
{
	unsigned long long usec;

	gs_systemd_ready();
	assert_string_equal(heard(fd), "READY=1");
	gs_systemd_reloading();
	assert_int_equal(sscanf(heard(fd), "RELOADING=1\nMONOTONIC_USEC=%llu", &usec), 1);
	assert_true(usec > 0);
	gs_systemd_alive();
	assert_string_equal(heard(fd), "WATCHDOG=1");
	gs_systemd_stopping();
	assert_string_equal(heard(fd), "STOPPING=1");
	close(fd);
}

static void messages(void **state)
{
	char path[] = "/tmp/unit_systemd_XXXXXX", name[128], abstract[64];

	assert_non_null(mkdtemp(path));
	snprintf(name, sizeof(name), "%s/socket", path);
	says(hear(name));
	unlink(name);
	rmdir(path);
	snprintf(abstract, sizeof(abstract), "@gpuscope-unit-systemd-%d", (int)getpid());
	says(hear(abstract));
	/* Nobody, or no address: nothing happens. */
	gs_systemd_ready();
	setenv("NOTIFY_SOCKET", "relative", 1);
	gs_systemd_ready();
	unsetenv("NOTIFY_SOCKET");
	gs_systemd_ready();
}

static void watchdog(void **state)
{
	struct gs_systemd_watchdog w;
	char pid[32];

	unsetenv("WATCHDOG_USEC");
	gs_systemd_watchdog_start(&w);
	assert_true(w.next_ns == UINT64_MAX);
	assert_false(gs_systemd_watchdog_due(&w));
	setenv("WATCHDOG_USEC", "7200000000", 1);
	gs_systemd_watchdog_start(&w);
	assert_true(w.period_ns == 3600000000000ull);
	assert_false(gs_systemd_watchdog_due(&w));
	w.next_ns = 0;
	assert_true(gs_systemd_watchdog_due(&w));
	assert_false(gs_systemd_watchdog_due(&w));           /* not again for half of the time */
	snprintf(pid, sizeof(pid), "%d", (int)getpid() + 1); /* another process is meant */
	setenv("WATCHDOG_PID", pid, 1);
	gs_systemd_watchdog_start(&w);
	assert_false(gs_systemd_watchdog_due(&w));
	unsetenv("WATCHDOG_PID");
	setenv("WATCHDOG_USEC", "soon", 1);
	gs_systemd_watchdog_start(&w);
	assert_true(w.next_ns == UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages),
		cmocka_unit_test(watchdog),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
