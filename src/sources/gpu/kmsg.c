/*
 * XIDs in the kernel's log: they come also when NVML does not answer any more. /dev/kmsg gives one
 * record a read (Documentation/ABI/testing/dev-kmsg):
 *
 *   4,1234,5678901,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen ...
 *
 * with the time in microseconds of the monotonic clock. Reading needs CAP_SYSLOG where
 * kernel.dmesg_restrict is set; without it XIDs come from NVML alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "sources/gpu/gpu_int.h"

#define RECORD_BYTES 8192 /* the kernel's own limit (CONSOLE_EXT_LOG_MAX) */

int gs_kmsg_open(struct gs_kmsg *kmsg, const char *path)
{
	kmsg->fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (kmsg->fd < 0)
		return -errno;
	/* What was logged before is not news. */
	if (lseek(kmsg->fd, 0, SEEK_END) < 0) {
		int r = -errno;

		gs_close_p(&kmsg->fd);
		return r;
	}
	return 0;
}

void gs_kmsg_close(struct gs_kmsg *kmsg)
{
	gs_close_p(&kmsg->fd);
}

static bool read_number(const char **at, const char *end, uint64_t *ret)
{
	const char *p = *at;

	*ret = 0;
	for (; p < end && *p >= '0' && *p <= '9'; p++) {
		if (*ret > (UINT64_MAX - 9) / 10)
			return false;
		*ret = *ret * 10 + (uint64_t)(*p - '0');
	}
	if (p == *at)
		return false;
	*at = p;
	return true;
}

static bool skip_word(const char **at, const char *end, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(end - *at) < n || memcmp(*at, word, n) != 0)
		return false;
	*at += n;
	return true;
}

bool gs_kmsg_parse(const char *text, size_t bytes, struct gs_gpu_event *ret_event,
		   uint64_t *ret_mono_ns)
{
	const char *p = text, *end = text + bytes, *close;
	uint64_t prio, seq, usec, xid;
	char bus[32];
	size_t n;

	if (!read_number(&p, end, &prio) || !skip_word(&p, end, ",") ||
	    !read_number(&p, end, &seq) || !skip_word(&p, end, ",") ||
	    !read_number(&p, end, &usec) || usec > UINT64_MAX / 1000)
		return false;
	/* Only the kernel says what its hardware does: facility 0. Anyone may write into the log.
	 */
	if (prio >> 3 != 0)
		return false;
	p = memchr(p, ';', (size_t)(end - p));
	if (!p)
		return false;
	p++;
	if (!skip_word(&p, end, "NVRM: Xid (PCI:"))
		return false;
	close = memchr(p, ')', (size_t)(end - p));
	if (!close || (size_t)(close - p) >= sizeof(bus))
		return false;
	memcpy(bus, p, (size_t)(close - p));
	bus[close - p] = '\0';
	bus[strcspn(bus, " ")] = '\0'; /* of a divided GPU: "PCI:0000:3b:00 GPU-I:05" */
	p = close;
	memset(ret_event, 0, sizeof(*ret_event));
	if (!skip_word(&p, end, "): ") || !read_number(&p, end, &xid) || !xid || xid > UINT32_MAX ||
	    !gs_pci_bus_id(bus, ret_event->pci_bus_id))
		return false;
	ret_event->xid = (uint32_t)xid;
	ret_event->source = GS_GPU_EVENT_KMSG;
	if (!skip_word(&p, end, ", ") && !skip_word(&p, end, ","))
		p = end;
	/* The message is one line; what follows are the record's properties. */
	for (n = 0; p < end && *p != '\n' && n + 1 < sizeof(ret_event->text); p++, n++)
		ret_event->text[n] = (unsigned char)*p < 0x20 || *p == 0x7f ? '?' : *p;
	*ret_mono_ns = usec * 1000;
	return true;
}

void gs_kmsg_read(struct gs_kmsg *kmsg, struct gs_gpu_events *events)
{
	char record[RECORD_BYTES];
	uint64_t mono_ns;

	/* A flood of other messages must not keep the caller. */
	for (unsigned i = 0; kmsg->fd >= 0 && i < 4096; i++) {
		ssize_t n = read(kmsg->fd, record, sizeof(record));
		struct gs_gpu_event e;

		if (n < 0 && errno == EPIPE) { /* overwritten before it was read */
			pthread_mutex_lock(&events->lock);
			events->lost++;
			pthread_mutex_unlock(&events->lock);
			continue;
		}
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		if (!gs_kmsg_parse(record, (size_t)n, &e, &mono_ns))
			continue;
		e.time_ns = mono_ns + (uint64_t)gs_clock_boot_minus_mono_ns();
		gs_gpu_events_add(events, &e);
	}
}
