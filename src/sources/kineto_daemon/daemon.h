/*
 * A daemon for PyTorch's profiler (Kineto, PyTorch 2.0 and later). In a process that was started with KINETO_USE_DAEMON=1,
 * the profiler asks a daemon every few seconds whether it should record a trace. While this daemon is open, it gives
 * processes their orders; processes without one get an empty answer.
 *
 * The profiler finds its daemon by an abstract socket in its network namespace. Such a socket has no permissions, so the
 * sender of a message is taken from the kernel (unix(7), SCM_CREDENTIALS). Protocol: libkineto/src/IpcFabricConfigClient.cpp
 * and dynolog's ipcfabric (PyTorch 2.11).
 *
 * Use a daemon from one thread at a time.
 */
#ifndef GS_SOURCES_KINETO_DAEMON_DAEMON_H
#define GS_SOURCES_KINETO_DAEMON_DAEMON_H

#include <stdint.h>

#include "core/base/err.h"

#define GS_KINETO_ORDERS_MAX 64   /* processes with an order */
#define GS_KINETO_TEXT_BYTES 1024 /* of an order, with the NUL */

struct gs_kineto_daemon;

enum gs_kineto_order_state {
	GS_KINETO_WAITS, /* the process has not asked yet */
	GS_KINETO_TAKEN, /* the process has asked and got the order */
};

/* Opens a daemon in the network namespace of a process. Free *ret_daemon with gs_kineto_daemon_close(). 0, or a negative
 * errno with err: -EADDRINUSE: another daemon runs there; -EPERM: that namespace cannot be entered. */
int gs_kineto_daemon_open(uint32_t pid, struct gs_kineto_daemon **ret_daemon, struct gs_err *err);

/* Closes and frees *daemon, and sets it to NULL; *daemon may be NULL. */
void gs_kineto_daemon_close(struct gs_kineto_daemon **daemon);

/* Sets the order that a process gets when it asks next, in place of an earlier one. text: Kineto's configuration, lines of
 * KEY=VALUE; copied. 0; -ENOSPC: more than GS_KINETO_ORDERS_MAX processes; -E2BIG: text is too long. */
int gs_kineto_daemon_order(struct gs_kineto_daemon *daemon, uint32_t pid, const char *text);

/* Answers messages for at most timeout_ms, until an order is taken, or until 64 messages were handled. 0 or a negative errno. */
int gs_kineto_daemon_serve(struct gs_kineto_daemon *daemon, int timeout_ms);

/* The state of a process's order; GS_KINETO_WAITS if it has none. */
enum gs_kineto_order_state gs_kineto_daemon_state(const struct gs_kineto_daemon *daemon,
						  uint32_t pid);

/* How many messages came from a process since its first order. 0: no profiler has asked, or the process has no order. */
uint64_t gs_kineto_daemon_n_received(const struct gs_kineto_daemon *daemon, uint32_t pid);

#endif
