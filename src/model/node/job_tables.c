/* Tables of several owners added up. */
#include "model/node/job_tables.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Room for one more, zeroed. NULL: no memory. */
static void *one_more(void **rows, size_t *n, size_t bytes)
{
	uint8_t *more = realloc(*rows, (*n + 1) * bytes);

	if (!more)
		return NULL;
	*rows = more;
	memset(more + *n * bytes, 0, bytes);
	return more + (*n)++ * bytes;
}

int gs_job_tables_add_disk(struct gs_taskstats_tables *t, const struct gs_taskstats_disk_row *row)
{
	struct gs_taskstats_disk_row *r;

	for (size_t i = 0; i < t->n_disks; i++) {
		r = &t->disks[i];
		if (r->major == row->major && r->minor == row->minor) {
			gs_taskstats_disk_add(&r->disk, &row->disk);
			return 0;
		}
	}
	r = one_more((void **)&t->disks, &t->n_disks, sizeof(*r));
	if (!r)
		return -ENOMEM;
	*r = *row;
	return 0;
}

int gs_job_tables_add_mount(struct gs_taskstats_tables *t, const struct gs_taskstats_mount_row *row)
{
	struct gs_taskstats_mount_row *r;

	for (size_t i = 0; i < t->n_mounts; i++) {
		r = &t->mounts[i];
		if (r->major == row->major && r->minor == row->minor && r->kind == row->kind) {
			gs_taskstats_io_add(&r->io, &row->io);
			return 0;
		}
	}
	r = one_more((void **)&t->mounts, &t->n_mounts, sizeof(*r));
	if (!r)
		return -ENOMEM;
	*r = *row;
	return 0;
}

int gs_job_tables_add_peer(struct gs_taskstats_tables *t, const struct gs_taskstats_peer_row *row)
{
	struct gs_taskstats_peer_row *r;

	for (size_t i = 0; i < t->n_peers; i++) {
		r = &t->peers[i];
		if (r->family == row->family && r->port == row->port &&
		    memcmp(r->addr, row->addr, sizeof(r->addr)) == 0) {
			gs_taskstats_peer_add(&r->peer, &row->peer);
			return 0;
		}
	}
	r = one_more((void **)&t->peers, &t->n_peers, sizeof(*r));
	if (!r)
		return -ENOMEM;
	*r = *row;
	return 0;
}

static int by_more(uint64_t a, uint64_t b)
{
	return (a < b) - (a > b);
}

static int by_disk(const void *a, const void *b)
{
	const struct gs_taskstats_disk *x = &((const struct gs_taskstats_disk_row *)a)->disk;
	const struct gs_taskstats_disk *y = &((const struct gs_taskstats_disk_row *)b)->disk;

	return by_more(x->read_bytes + x->write_bytes, y->read_bytes + y->write_bytes);
}

static int by_mount(const void *a, const void *b)
{
	const struct gs_taskstats_io_count *x = &((const struct gs_taskstats_mount_row *)a)->io;
	const struct gs_taskstats_io_count *y = &((const struct gs_taskstats_mount_row *)b)->io;

	return by_more(x->read_bytes + x->write_bytes, y->read_bytes + y->write_bytes);
}

static int by_peer(const void *a, const void *b)
{
	const struct gs_taskstats_peer *x = &((const struct gs_taskstats_peer_row *)a)->peer;
	const struct gs_taskstats_peer *y = &((const struct gs_taskstats_peer_row *)b)->peer;

	return by_more(x->sent_bytes + x->received_bytes, y->sent_bytes + y->received_bytes);
}

void gs_job_tables_sort(struct gs_taskstats_tables *t)
{
	if (t->n_disks)
		qsort(t->disks, t->n_disks, sizeof(*t->disks), by_disk);
	if (t->n_mounts)
		qsort(t->mounts, t->n_mounts, sizeof(*t->mounts), by_mount);
	if (t->n_peers)
		qsort(t->peers, t->n_peers, sizeof(*t->peers), by_peer);
}

void gs_job_tables_fini(struct gs_taskstats_tables *t)
{
	free(t->disks);
	free(t->mounts);
	free(t->peers);
	*t = (struct gs_taskstats_tables){0};
}
