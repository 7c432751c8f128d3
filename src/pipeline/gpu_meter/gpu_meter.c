#include "pipeline/gpu_meter/gpu_meter.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/vec.h"
#include "pipeline/gpu_meter/gpu_meter_int.h"

#define NEEDS_NS 3000000000ull /* between two looks into files for what kernels need */
#define ROWS_MAX 4096u

/* --- life --- */

static int open_feed(struct gs_gpu_meter *m)
{
	const struct gs_sink sink = meter_records_sink(m);
	struct gs_ingest_options o = {.size = sizeof(o),
				      .mode = GS_SESSION_EVENTS,
				      .command = "",
				      .attach_mode = "",
				      .boot_minus_mono_ns = gs_clock_boot_minus_mono_ns(),
				      .reader = m->code};
	int r;

	m->place = gs_identity_new("/proc");
	m->dict = gs_dict_new();
	if (!m->place || !m->dict)
		return -ENOMEM;
	o.place = m->place;
	r = gs_ingest_new(&o, &m->feed);
	if (r == 0)
		r = gs_ingest_add_sink(m->feed, "sums", &sink);
	return r;
}

int gs_gpu_meter_open(struct gs_gpu_meter **ret, struct gs_err *err)
{
	const struct gs_reader_options files = {.name = "files"};
	const struct gs_reader_options code = {.name = "code", .keeps_state = true};
	struct gs_gpu_meter *m = calloc(1, sizeof(*m));
	int r;

	if (!m)
		return -ENOMEM;
	m->memory_records = GS_BUF_INIT(64u << 20);
	m->process_of = m->thread_of = m->born = m->chosen = m->id_of = GS_MAP_INIT(METER_MAPS_MAX);
	m->asked = m->followed = GS_MAP_INIT(METER_MAPS_MAX);
	r = meter_functions_choose(m);
	if (r == 0)
		r = gs_process_gpu_new(NULL, gs_clock_mono_ns(), &m->sums);
	if (r == 0)
		r = gs_memory_new(&m->memory);
	if (r == 0)
		r = gs_reader_new(&files, &m->files, err);
	if (r == 0)
		r = gs_reader_new(&code, &m->code, err);
	if (r == 0)
		r = open_feed(m);
	if (r < 0)
		gs_gpu_meter_close(&m);
	*ret = m;
	return r;
}

void gs_gpu_meter_close(struct gs_gpu_meter **ref)
{
	struct gs_gpu_meter *m = *ref;

	if (!m)
		return;
	gs_uprobe_free(&m->probe);
	meter_inside_close(m);
	gs_ingest_free(&m->feed);
	gs_memory_free(&m->memory);
	gs_identity_free(&m->place);
	gs_process_gpu_free(&m->sums);
	gs_dict_free(&m->dict);
	gs_reader_free(&m->files);
	gs_reader_free(&m->code);
	gs_map_fini(&m->process_of);
	gs_map_fini(&m->thread_of);
	gs_map_fini(&m->born);
	gs_map_fini(&m->chosen);
	gs_map_fini(&m->id_of);
	gs_map_fini(&m->asked);
	gs_map_fini(&m->followed);
	free(m->globs);
	free(m->gone);
	free(m->processes);
	free(m->uses);
	free(m->rows);
	free(m->held);
	gs_buf_fini(&m->memory_records);
	free(m);
	*ref = NULL;
}

/* --- processes --- */

uint32_t meter_process_number(struct gs_gpu_meter *m, uint32_t pid)
{
	const struct gs_identity_process *known;
	bool is_late;
	int only;
	char uuids[GS_IDENTITY_GPUS_BYTES];
	struct meter_process *p;
	uint64_t number, one;

	if (gs_map_get(&m->process_of, pid, &number))
		return (uint32_t)number;
	number = m->n_processes + 1;
	if (number >= ROWS_MAX ||
	    !gs_vec_reserve(&m->processes, &m->cap_processes, m->n_processes + 1))
		return 0;
	known = gs_identity_process(m->place, pid);
	if (!known)
		return 0;
	is_late = !gs_map_get(&m->born, pid, &one);
	gs_identity_visible_gpus(m->place, known, NULL, 0, !is_late, uuids, &only);
	if (gs_process_gpu_begin(m->sums, (uint32_t)number, uuids, is_late) < 0 ||
	    gs_map_put(&m->process_of, pid, number) < 0)
		return 0;
	/* It uses one alone, whatever it has chosen. */
	if (only >= 0)
		gs_process_gpu_guess(
			m->sums, (uint32_t)number,
			gs_process_gpu_device_uuid(
				m->sums, gs_process_gpu_find_device(m->sums, (uint32_t)number,
								    (uint32_t)only)));
	gs_memory_set_late(m->memory, (uint32_t)number, is_late && (!*uuids || strchr(uuids, ',')));
	p = &m->processes[m->n_processes++];
	*p = (struct meter_process){.pid = pid};
	memcpy(p->comm, known->comm, sizeof(p->comm));
	return (uint32_t)number;
}

/* Of those that ended while the probes were being opened, with another choice of processes, no end was reported. */
static void find_ended(struct gs_gpu_meter *m)
{
	for (size_t i = 0; i < m->n_processes; i++) {
		struct meter_process *p = &m->processes[i];

		if (!p->ended && !p->ending_ns && kill((pid_t)p->pid, 0) < 0 && errno == ESRCH)
			p->ending_ns = gs_clock_mono_ns();
	}
}

static void end_processes(struct gs_gpu_meter *m)
{
	for (size_t i = 0; i < m->n_processes; i++) {
		struct meter_process *p = &m->processes[i];

		if (p->ended || !p->ending_ns)
			continue;
		p->ended = true;
		gs_process_gpu_end(m->sums, (uint32_t)i + 1, p->ending_ns);
		gs_map_del(&m->process_of, p->pid);
		gs_map_del(&m->id_of, p->pid);
		gs_memory_end_process(m->memory, (uint32_t)i + 1);
	}
}

static bool is_among(pid_t pid, const pid_t *pids, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

int gs_gpu_meter_choose(struct gs_gpu_meter *m, const pid_t *pids, size_t n, struct gs_err *err)
{
	bool fewer = false;
	uint64_t one;
	int r = 0;

	meter_inside_ask(m, pids, n);
	gs_map_for_each (&m->chosen, at) {
		if (is_among((pid_t)at->key, pids, n))
			continue;
		fewer = true;
		gs_map_del(&m->chosen, at->key);
	}
	if (fewer) {
		meter_probe_close(m);
		meter_inside_forget(m);
	}
	if (n && !m->probe)
		r = meter_probe_open(m, pids, n, err);
	for (size_t i = 0; r == 0 && i < n; i++) {
		if (gs_map_get(&m->chosen, (uint32_t)pids[i], &one))
			continue;
		r = gs_map_put(&m->chosen, (uint32_t)pids[i], 1);
		if (r == 0)
			r = gs_uprobe_follow(m->probe, pids[i]);
		if (r == 0)
			(void)gs_uprobe_attach_process(m->probe, pids[i]);
		else /* to be tried again by the next call */
			gs_map_del(&m->chosen, (uint32_t)pids[i]);
	}
	return r;
}

/* --- GPUs --- */

static struct meter_use *use_of(struct gs_gpu_meter *m, uint32_t process, const char *gpu)
{
	for (size_t i = 0; i < m->n_uses; i++)
		if (m->uses[i].process == process && strcmp(m->uses[i].gpu, gpu) == 0)
			return &m->uses[i];
	if (m->n_uses >= ROWS_MAX || !gs_vec_reserve(&m->uses, &m->cap_uses, m->n_uses + 1))
		return NULL;
	m->uses[m->n_uses] = (struct meter_use){.process = process, .bytes = -1, .peak_bytes = -1};
	snprintf(m->uses[m->n_uses].gpu, sizeof(m->uses->gpu), "%s", gpu);
	return &m->uses[m->n_uses++];
}

static void see_uses(struct gs_gpu_meter *m, const struct gs_gpu_snapshot *gpus)
{
	uint64_t number;

	for (size_t i = 0; i < m->n_uses; i++)
		m->uses[i].bytes = m->processes[m->uses[i].process - 1].ended ? 0 : -1;
	for (uint32_t i = 0; i < gpus->n_processes; i++) {
		const struct gs_gpu_process *p = &gpus->process[i];
		const char *uuid = p->gpu < gpus->n_gpus ? gpus->info[p->gpu].uuid : "";
		struct meter_use *use;
		unsigned n = 0;

		if (p->ended || !*uuid || !gs_map_get(&m->process_of, p->pid, &number))
			continue;
		for (uint32_t k = 0; k < gpus->n_processes; k++)
			n += gpus->process[k].pid == p->pid && !gpus->process[k].ended;
		if (n == 1)
			gs_process_gpu_guess(m->sums, (uint32_t)number, uuid);
		use = p->used_bytes >= 0 ? use_of(m, (uint32_t)number, uuid) : NULL;
		if (!use)
			continue;
		use->bytes = p->used_bytes;
		if (p->used_bytes > use->peak_bytes)
			use->peak_bytes = p->used_bytes;
	}
}

void gs_gpu_meter_see_gpus(struct gs_gpu_meter *m, const struct gs_gpu_snapshot *gpus)
{
	struct gs_process_gpu_device *devices;
	size_t n = 0;

	if (!gpus)
		return;
	devices = calloc(gpus->n_gpus + 1, sizeof(*devices));
	for (uint32_t i = 0; devices && i < gpus->n_gpus; i++) {
		const struct gs_gpu_info *g = &gpus->info[i];
		struct gs_process_gpu_device *d = &devices[n];

		if (!g->uuid[0])
			continue;
		snprintf(d->uuid, sizeof(d->uuid), "%s", g->uuid);
		d->major = g->compute_major;
		d->minor = g->compute_minor;
		d->n_sms = g->n_sms > 0 ? (uint32_t)g->n_sms : 0;
		d->n_cores = d->n_sms * gs_gpu_sm_cores(g->compute_major, g->compute_minor);
		n++;
	}
	if (devices && gs_process_gpu_set_devices(m->sums, devices, n) == 0)
		m->n_gpus = gs_process_gpu_devices(m->sums);
	free(devices);
	gs_identity_set_gpus(m->place, gpus);
	see_uses(m, gpus);
}

/* --- sums --- */

void gs_gpu_meter_poll(struct gs_gpu_meter *m)
{
	meter_probe_poll(m);
	meter_inside_poll(m);
	gs_ingest_flush(m->feed);
	find_ended(m);
	end_processes(m);
}

static struct gs_gpu_meter_row *row_of(struct gs_gpu_meter *m, uint32_t process, const char *gpu)
{
	const struct meter_process *p = &m->processes[process - 1];
	struct gs_gpu_meter_row *row;

	for (size_t i = 0; i < m->n_rows; i++)
		if (m->rows[i].sums.process == process && strcmp(m->rows[i].gpu, gpu) == 0)
			return &m->rows[i];
	if (!gs_vec_reserve(&m->rows, &m->cap_rows, m->n_rows + 1))
		return NULL;
	row = &m->rows[m->n_rows++];
	*row = (struct gs_gpu_meter_row){.pid = p->pid,
					 .ended = p->ended,
					 .sums.process = process,
					 .driver_bytes = -1,
					 .driver_peak_bytes = -1};
	memcpy(row->comm, p->comm, sizeof(row->comm));
	snprintf(row->gpu, sizeof(row->gpu), "%s", gpu);
	return row;
}

/* Two contexts of a process may be on one GPU: one of them by the thread's choice, one by a guess. */
static void add_sums(struct gs_process_gpu_row *to, const struct gs_process_gpu_row *more)
{
	to->device = more->device;
	to->active_max_ns += more->active_max_ns;
	to->active_min_ns += more->active_min_ns;
	to->wait_ns += more->wait_ns;
	to->n_waits += more->n_waits;
	to->core_s += more->core_s;
	to->core_share_s += more->core_share_s;
	to->place_s += more->place_s;
	to->n_needs_known += more->n_needs_known;
	to->threads += more->threads;
	to->n_pending += more->n_pending;
	for (unsigned w = 0; w < GS_ACTIVITY_WORKS; w++) {
		to->n[w] += more->n[w];
		to->bytes[w] += more->bytes[w];
	}
}

static void make_rows(struct gs_gpu_meter *m)
{
	struct gs_process_gpu_row sums;
	struct gs_gpu_meter_row *row;

	m->n_rows = 0;
	for (size_t i = 0; i < gs_process_gpu_count(m->sums); i++) {
		gs_process_gpu_read(m->sums, i, &sums);
		row = row_of(m, sums.process,
			     sums.device < 0 ? ""
					     : gs_process_gpu_device_uuid(m->sums, sums.device));
		if (row)
			add_sums(&row->sums, &sums);
	}
	for (size_t i = 0; i < m->n_uses; i++) {
		row = row_of(m, m->uses[i].process, m->uses[i].gpu);
		if (!row)
			continue;
		row->driver_bytes = m->uses[i].bytes;
		row->driver_peak_bytes = m->uses[i].peak_bytes;
	}
}

static void add_held(struct gs_gpu_meter *m, const struct gs_rec_memory *r)
{
	const struct meter_process *p = &m->processes[r->process - 1];
	int32_t device = gs_process_gpu_find_device(m->sums, r->process, r->device);
	const char *gpu = gs_process_gpu_device_uuid(m->sums, device);
	struct gs_gpu_meter_memory *held;

	for (size_t i = 0; i < m->n_held; i++) {
		held = &m->held[i];
		/* By the thread's choice, and by a guess. */
		if (held->pid != p->pid || held->ended != p->ended || held->kind != r->kind ||
		    strcmp(held->gpu, gpu) != 0)
			continue;
		held->live_bytes += p->ended ? 0 : r->live_bytes;
		held->peak_bytes += r->peak_bytes;
		return;
	}
	if (m->n_held >= ROWS_MAX || !gs_vec_reserve(&m->held, &m->cap_held, m->n_held + 1))
		return;
	held = &m->held[m->n_held++];
	*held = (struct gs_gpu_meter_memory){.pid = p->pid,
					     .ended = p->ended,
					     .kind = r->kind,
					     .live_bytes = p->ended ? 0 : r->live_bytes,
					     .peak_bytes = r->peak_bytes};
	memcpy(held->comm, p->comm, sizeof(held->comm));
	snprintf(held->gpu, sizeof(held->gpu), "%s", gpu);
}

/* Sums over devices are left out, but where memory is of none. */
static bool is_held(const struct gs_gpu_meter *m, const struct gs_rec_memory *r)
{
	bool of_host = r->kind == GS_MEMORY_PINNED || r->kind == GS_MEMORY_REGISTERED;

	return r->process && r->process <= m->n_processes && r->kind < GS_MEMORY_ON_DEVICE &&
	       (of_host || r->device != GS_MEMORY_DEVICE_ALL);
}

static void make_memory(struct gs_gpu_meter *m)
{
	struct gs_batch batch;

	m->n_held = 0;
	gs_buf_reset(&m->memory_records);
	if (gs_memory_put_records(m->memory, &m->memory_records) < 0) {
		m->n_lost++;
		return;
	}
	batch = (struct gs_batch){m->memory_records.data, m->memory_records.bytes};
	gs_records_for_each (&batch, record) {
		const struct gs_rec_memory *r = (const void *)record;

		if (record->kind == GS_REC_MEMORY && is_held(m, r))
			add_held(m, r);
	}
}

void gs_gpu_meter_tick(struct gs_gpu_meter *m)
{
	uint64_t now_ns = gs_clock_mono_ns();

	gs_gpu_meter_poll(m);
	if (m->wants_needs && now_ns - m->needs_ns >= NEEDS_NS) {
		m->wants_needs = false;
		gs_ingest_needs(m->feed);
		m->needs_ns = gs_clock_mono_ns();
	}
	gs_process_gpu_tick(m->sums, now_ns);
	make_rows(m);
	make_memory(m);
}

size_t gs_gpu_meter_count(const struct gs_gpu_meter *m)
{
	return m->n_rows;
}

void gs_gpu_meter_read(const struct gs_gpu_meter *m, size_t index, struct gs_gpu_meter_row *ret)
{
	*ret = m->rows[index];
}

size_t gs_gpu_meter_count_memory(const struct gs_gpu_meter *m)
{
	return m->n_held;
}

void gs_gpu_meter_read_memory(const struct gs_gpu_meter *m, size_t index,
			      struct gs_gpu_meter_memory *ret)
{
	*ret = m->held[index];
}

size_t gs_gpu_meter_count_gpus(const struct gs_gpu_meter *m)
{
	return m->n_gpus;
}

bool gs_gpu_meter_read_gpu(const struct gs_gpu_meter *m, size_t index, const char **ret_uuid,
			   struct gs_process_gpu_total *ret_total)
{
	*ret_uuid = gs_process_gpu_device_uuid(m->sums, (int32_t)index);
	return gs_process_gpu_read_total(m->sums, index, ret_total);
}

unsigned gs_gpu_meter_probes(const struct gs_gpu_meter *m)
{
	return m->probe ? gs_uprobe_n_probes(m->probe) : 0;
}
