/* Names into addresses without waiting: a thread asks, and outlives who has stopped caring. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>

#include "net/grpc/client_int.h"

struct gs_grpc_resolve {
	atomic_uint refs; /* the client's and the thread's */
	atomic_bool done;
	int fd;
	char host[256], port[8];
	struct addrinfo *found;
	int result; /* of getaddrinfo() */
	int saved_errno;
};

static const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};

static void unref_resolve(struct gs_grpc_resolve *r)
{
	if (atomic_fetch_sub(&r->refs, 1) != 1)
		return;
	if (r->found)
		freeaddrinfo(r->found);
	gs_close_p(&r->fd);
	free(r);
}

static void *resolve_thread(void *arg)
{
	struct gs_grpc_resolve *r = arg;
	uint64_t one = 1;

	r->result = getaddrinfo(r->host, r->port, &wanted, &r->found);
	r->saved_errno = errno;
	r->done = true;
	(void)!write(r->fd, &one, sizeof(one));
	unref_resolve(r);
	return NULL;
}

int gs_grpc_resolve_start(const char *host, const char *port, struct gs_grpc_resolve **ret_resolve)
{
	struct gs_grpc_resolve *r = calloc(1, sizeof(*r));
	pthread_attr_t attr;
	sigset_t all, before;
	pthread_t thread;
	int e;

	if (!r)
		return -ENOMEM;
	r->refs = 2;
	r->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	snprintf(r->host, sizeof(r->host), "%s", host);
	snprintf(r->port, sizeof(r->port), "%s", port);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all); /* signals are for the program's own threads */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	e = r->fd < 0 ? errno : pthread_create(&thread, &attr, resolve_thread, r);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	if (e) {
		r->refs = 1;
		unref_resolve(r);
		return -e;
	}
	*ret_resolve = r;
	return 0;
}

int gs_grpc_resolve_fd(const struct gs_grpc_resolve *r)
{
	return r->fd;
}

int gs_grpc_resolve_result(struct gs_grpc_resolve *r, struct addrinfo **ret_found, char *why,
			   size_t bytes)
{
	if (!r->done)
		return -EAGAIN;
	if (r->result == 0 && r->found) {
		*ret_found = gs_take(r->found);
		return 0;
	}
	snprintf(why, bytes, "%s: %s", r->host,
		 r->result == EAI_SYSTEM ? strerror(r->saved_errno) : gai_strerror(r->result));
	return -ENOENT;
}

void gs_grpc_resolve_drop(struct gs_grpc_resolve **r)
{
	if (*r)
		unref_resolve(*r);
	*r = NULL;
}
