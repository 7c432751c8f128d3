/*
 * What a service reports to systemd (Type=notify, WatchdogSec=). Nothing happens where no socket
 * listens.
 */
#ifndef GS_CORE_BASE_SYSTEMD_H
#define GS_CORE_BASE_SYSTEMD_H

#include <stdbool.h>
#include <stdint.h>

void gs_systemd_ready(void);     /* it serves; also at the end of each reload */
void gs_systemd_reloading(void); /* before anything is read again */
void gs_systemd_stopping(void);  /* it ends, and need not be waited for as if it hung */

struct gs_systemd_watchdog {
	uint64_t period_ns; /* half of the time in which systemd wants to hear of us */
	uint64_t next_ns;   /* monotonic; UINT64_MAX: it does not watch */
};

/* Reads from the environment whether systemd watches this process; without it never due. */
void gs_systemd_watchdog_start(struct gs_systemd_watchdog *watchdog);

/* Whether it is time again to look whether we are well; who is says so by gs_systemd_alive(). */
bool gs_systemd_watchdog_due(struct gs_systemd_watchdog *watchdog);
void gs_systemd_alive(void);

#endif
