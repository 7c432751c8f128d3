/*
 * NVLink and NVLink-C2C. What belongs to a single link costs a call for each link and value, or a
 * field each in one call: tens of milliseconds together, so it is read seldom; bytes are read as
 * one sum. Versions and what is at the other end stay as they are as long as the links do.
 */
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "sources/gpu/gpu_int.h"

static const uint16_t count_ids[GS_GPU_LINK_COUNTS] = {
	[GS_GPU_LINK_MALFORMED] = NVML_FI_NVLINK_MALFORMED,
	[GS_GPU_LINK_OVERRUN] = NVML_FI_NVLINK_OVERRUN,
	[GS_GPU_LINK_RECEIVE] = NVML_FI_NVLINK_RCV_ERRORS,
	[GS_GPU_LINK_REMOTE] = NVML_FI_NVLINK_RCV_REMOTE,
	[GS_GPU_LINK_GENERAL] = NVML_FI_NVLINK_RCV_GENERAL,
	[GS_GPU_LINK_INTEGRITY] = NVML_FI_NVLINK_INTEGRITY,
	[GS_GPU_LINK_DISCARDS] = NVML_FI_NVLINK_DISCARDS,
	[GS_GPU_LINK_RECOVERY_FAILED] = NVML_FI_NVLINK_RECOVERY_FAILED,
	[GS_GPU_LINK_EFFECTIVE] = NVML_FI_NVLINK_EFFECTIVE,
	[GS_GPU_LINK_SYMBOL] = NVML_FI_NVLINK_SYMBOL,
};

static bool is_missing(nvml_return r)
{
	return r == NVML_NOT_SUPPORTED || r == NVML_INVALID_ARGUMENT;
}

/* What is at the other end, and by which version. */
static void read_end(struct gs_nvml *nv, struct gs_nvml_device *dev, unsigned i)
{
	struct gs_gpu_link *link = &dev->sample.link[i];
	struct nvml_pci pci = {{0}};
	unsigned number = 0;

	if (NVML_OF(nv, dev, link_version, dev->handle, i, &number) == NVML_OK)
		link->version = (uint8_t)number;
	link->remote_bus_id[0] = '\0';
	if (link->up && NVML_OF(nv, dev, link_type, dev->handle, i, &number) == NVML_OK &&
	    number == NVML_LINK_TO_GPU &&
	    NVML_OF(nv, dev, link_pci, dev->handle, i, &pci) == NVML_OK) {
		pci.bus_id[sizeof(pci.bus_id) - 1] = '\0';
		gs_pci_bus_id(pci.bus_id, link->remote_bus_id);
	}
}

static void read_errors(struct gs_nvml *nv, struct gs_nvml_device *dev, unsigned i)
{
	struct gs_gpu_link *link = &dev->sample.link[i];
	unsigned long long n = 0;

	link->have_errors = 0;
	if (NVML_OF(nv, dev, link_errors, dev->handle, i, NVML_LINK_CRC_FLIT, &n) == NVML_OK) {
		link->crc_errors = n;
		link->have_errors = 1;
	}
	if (NVML_OF(nv, dev, link_errors, dev->handle, i, NVML_LINK_REPLAY, &n) == NVML_OK)
		link->replay_errors = n;
	if (NVML_OF(nv, dev, link_errors, dev->handle, i, NVML_LINK_RECOVERY, &n) == NVML_OK)
		link->recovery_errors = n;
}

static void set_up(struct gs_nvml_device *dev, unsigned i, bool up)
{
	struct gs_gpu_link *link = &dev->sample.link[i];

	if (!link->present || link->up != up)
		dev->links_known = false;
	link->present = 1;
	link->up = up;
}

/* One field of each link; false: the GPU does not have it. */
static bool read_field(struct gs_nvml *nv, struct gs_nvml_device *dev, uint16_t id,
		       struct nvml_field *f)
{
	unsigned n = dev->sample.n_links;
	nvml_return r;

	if (dev->no_field[id] || !n)
		return false;
	memset(f, 0, sizeof(*f) * n);
	for (unsigned i = 0; i < n; i++) {
		f[i].id = id;
		f[i].scope = i;
	}
	r = NVML_OF(nv, dev, fields, dev->handle, (int)n, f);
	if (is_missing(r) || (r == NVML_OK && is_missing(f[0].r)))
		dev->no_field[id] = 1;
	return r == NVML_OK && !dev->no_field[id];
}

/* Errors that links of NVLink 5 count, each and their sums. */
static void read_counts(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	struct gs_gpu_sample *s = &dev->sample;
	struct nvml_field f[GS_GPU_LINK_MAX];

	for (unsigned kind = 0; kind < GS_GPU_LINK_COUNTS; kind++) {
		bool there = read_field(nv, dev, count_ids[kind], f);
		unsigned n_read = 0;
		double sum = 0;

		for (unsigned i = 0; i < s->n_links; i++) {
			uint16_t bit = (uint16_t)(1u << kind);

			s->link[i].have_counts &= (uint16_t)~bit;
			if (!there || f[i].r != NVML_OK)
				continue;
			s->link[i].count[kind] = (uint64_t)gs_nvml_number(&f[i]);
			s->link[i].have_counts |= bit;
			sum += gs_nvml_number(&f[i]);
			n_read++;
		}
		gs_nvml_put(dev, GS_GPU_LINK_COUNT_FIELD(kind),
			    n_read ? NVML_OK : NVML_NOT_SUPPORTED, sum);
	}
}

/* What both ways end with. */
static void put_links(struct gs_nvml *nv, struct gs_nvml_device *dev, nvml_return r)
{
	struct gs_gpu_sample *s = &dev->sample;
	double crc = 0, replay = 0, recovery = 0;
	unsigned n_up = 0, n_errors = 0;

	if (!dev->links_known)
		for (unsigned i = 0; i < s->n_links; i++)
			read_end(nv, dev, i);
	dev->links_known = s->n_links > 0;
	for (unsigned i = 0; i < s->n_links; i++) {
		n_up += s->link[i].up;
		n_errors += s->link[i].have_errors;
		crc += (double)s->link[i].crc_errors;
		replay += (double)s->link[i].replay_errors;
		recovery += (double)s->link[i].recovery_errors;
	}
	gs_nvml_put(dev, GS_GPU_NVLINK_ACTIVE, r, n_up);
	if (r == NVML_OK && !n_errors)
		r = NVML_NOT_SUPPORTED;
	gs_nvml_put(dev, GS_GPU_NVLINK_CRC, r, crc);
	gs_nvml_put(dev, GS_GPU_NVLINK_REPLAY, r, replay);
	gs_nvml_put(dev, GS_GPU_NVLINK_RECOVERY, r, recovery);
	read_counts(nv, dev);
}

void gs_nvml_read_links(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	struct gs_gpu_sample *s = &dev->sample;
	nvml_return r = NVML_OK;
	unsigned i;

	for (i = 0; i < NVML_LINKS_MAX; i++) {
		unsigned up = 0;

		/* The first link that is not there ends the list. */
		r = NVML(nv, uplink_state, dev->handle, i, &up);
		if (r != NVML_OK)
			break;
		set_up(dev, i, up != 0);
		read_errors(nv, dev, i);
	}
	if (r == NVML_GPU_IS_LOST)
		return;
	if (s->n_links != i)
		dev->links_known = false;
	s->n_links = i;
	put_links(nv, dev, i ? NVML_OK : r);
}

void gs_nvml_read_links_fields(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	enum { STATE, CRC, REPLAY, RECOVERY, N };
	static const uint16_t ids[N] = {NVML_FI_LINK_STATE, NVML_FI_LINK_CRC, NVML_FI_LINK_REPLAY,
					NVML_FI_LINK_RECOVERY};
	struct nvml_field f[GS_GPU_LINK_MAX * N];
	struct gs_gpu_sample *s = &dev->sample;
	nvml_return r;

	memset(f, 0, sizeof(f));
	for (unsigned i = 0; i < s->n_links * N; i++) {
		f[i].id = ids[i % N];
		f[i].scope = i / N;
	}
	r = s->n_links ? NVML_OF(nv, dev, fields, dev->handle, (int)(s->n_links * N), f)
		       : NVML_NOT_SUPPORTED;
	if (r == NVML_OK)
		r = f[STATE].r;
	for (unsigned i = 0; r == NVML_OK && i < s->n_links; i++) {
		struct gs_gpu_link *link = &s->link[i];
		const struct nvml_field *one = &f[i * N];

		if (one[STATE].r == NVML_OK)
			set_up(dev, i, gs_nvml_number(&one[STATE]) == 1);
		link->have_errors = one[CRC].r == NVML_OK;
		if (one[CRC].r == NVML_OK)
			link->crc_errors = (uint64_t)gs_nvml_number(&one[CRC]);
		if (one[REPLAY].r == NVML_OK)
			link->replay_errors = (uint64_t)gs_nvml_number(&one[REPLAY]);
		if (one[RECOVERY].r == NVML_OK)
			link->recovery_errors = (uint64_t)gs_nvml_number(&one[RECOVERY]);
	}
	if (r == NVML_GPU_IS_LOST)
		return;
	/* Errors that this way does not know are no zeros: then it is not the way. */
	if (r == NVML_OK && !s->link[0].have_errors && gs_gpu_has(s, GS_GPU_NVLINK_CRC))
		r = NVML_NOT_SUPPORTED;
	put_links(nv, dev, r);
}

void gs_nvml_read_link_each(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	struct gs_gpu_sample *s = &dev->sample;
	struct nvml_field tx[GS_GPU_LINK_MAX], rx[GS_GPU_LINK_MAX];
	unsigned shift = 10; /* KiB */
	bool there = read_field(nv, dev, NVML_FI_NVLINK_DATA_TX, tx) &&
		     read_field(nv, dev, NVML_FI_NVLINK_DATA_RX, rx);

	if (!there) {
		shift = 0;
		there = read_field(nv, dev, NVML_FI_NVLINK_XMIT_BYTES, tx) &&
			read_field(nv, dev, NVML_FI_NVLINK_RCV_BYTES, rx);
	}
	for (unsigned i = 0; there && i < s->n_links; i++) {
		s->link[i].have_bytes = tx[i].r == NVML_OK && rx[i].r == NVML_OK;
		if (s->link[i].have_bytes) {
			s->link[i].tx_bytes = tx[i].value.ull << shift;
			s->link[i].rx_bytes = rx[i].value.ull << shift;
		}
	}
}

/* The sum over all links: in KiB by the older fields, in bytes for each link by those of NVLink 5.
 */
static nvml_return link_total(struct gs_nvml *nv, struct gs_nvml_device *dev, unsigned old_id,
			      unsigned new_id, double *ret_bytes)
{
	struct nvml_field f[GS_GPU_LINK_MAX];
	nvml_return r;

	*ret_bytes = 0;
	memset(f, 0, sizeof(f[0]));
	if (!(dev->no_total >> (old_id - NVML_FI_NVLINK_DATA_TX) & 1)) {
		f[0].id = old_id;
		f[0].scope = NVML_SCOPE_ALL;
		r = NVML_OF(nv, dev, fields, dev->handle, 1, f);
		r = r == NVML_OK ? f[0].r : r;
		*ret_bytes = (double)f[0].value.ull * 1024;
		if (!is_missing(r))
			return r;
		dev->no_total |= (uint8_t)(1u << (old_id - NVML_FI_NVLINK_DATA_TX));
	}
	*ret_bytes = 0;
	if (!read_field(nv, dev, (uint16_t)new_id, f))
		return NVML_NOT_SUPPORTED;
	r = NVML_OK;
	for (unsigned i = 0; i < dev->sample.n_links && r == NVML_OK; i++) {
		r = f[i].r;
		*ret_bytes += (double)f[i].value.ull;
	}
	return r;
}

void gs_nvml_read_link_bytes(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	uint64_t now_ns = gs_clock_boot_ns();
	double bytes = 0;
	nvml_return r;

	if (!dev->sample.n_links) {
		dev->sample.why[GS_GPU_NVLINK_TX] = dev->sample.why[GS_GPU_NVLINK_RX] =
			dev->sample.why[GS_GPU_NVLINK_ACTIVE];
	} else {
		r = link_total(nv, dev, NVML_FI_NVLINK_DATA_TX, NVML_FI_NVLINK_XMIT_BYTES, &bytes);
		gs_nvml_put(dev, GS_GPU_NVLINK_TX, r, bytes);
		r = link_total(nv, dev, NVML_FI_NVLINK_DATA_RX, NVML_FI_NVLINK_RCV_BYTES, &bytes);
		gs_nvml_put(dev, GS_GPU_NVLINK_RX, r, bytes);
	}
	gs_nvml_put_rate(dev, GS_GPU_NVLINK_TX_BPS, GS_GPU_NVLINK_TX, 2, now_ns);
	gs_nvml_put_rate(dev, GS_GPU_NVLINK_RX_BPS, GS_GPU_NVLINK_RX, 3, now_ns);
}

/* The coherent link between a Grace processor and its GPU. */
void gs_nvml_read_c2c(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	struct nvml_c2c_mode mode = {0};
	struct nvml_field f[GS_GPU_LINK_MAX * 2];
	unsigned n, n_up = 0;
	double bps = 0;
	nvml_return r = NVML_OF(nv, dev, c2c_mode, dev->handle, &mode);

	gs_nvml_put(dev, GS_GPU_C2C_ENABLED, r, mode.enabled);
	memset(f, 0, sizeof(f));
	f[0].id = NVML_FI_C2C_COUNT;
	r = NVML_OF(nv, dev, fields, dev->handle, 1, f);
	r = r == NVML_OK ? f[0].r : r;
	n = r == NVML_OK ? (unsigned)gs_nvml_number(&f[0]) : 0;
	n = n < GS_GPU_LINK_MAX ? n : GS_GPU_LINK_MAX;
	if (r == NVML_OK && !n)
		r = NVML_NOT_SUPPORTED;
	memset(f, 0, sizeof(f));
	for (unsigned i = 0; i < n * 2; i++) {
		f[i].id = i % 2 ? NVML_FI_C2C_MAX_BW : NVML_FI_C2C_STATUS;
		f[i].scope = i / 2;
	}
	if (n)
		r = NVML_OF(nv, dev, fields, dev->handle, (int)n * 2, f);
	for (unsigned i = 0; r == NVML_OK && i < n; i++) {
		if (f[i * 2].r != NVML_OK || gs_nvml_number(&f[i * 2]) != 1)
			continue;
		n_up++;
		if (f[i * 2 + 1].r == NVML_OK)
			bps += gs_nvml_number(&f[i * 2 + 1]) * 1e6;
	}
	gs_nvml_put(dev, GS_GPU_C2C_LINKS, r, n_up);
	gs_nvml_put(dev, GS_GPU_C2C_BPS_MAX, r == NVML_OK && bps <= 0 ? NVML_NOT_SUPPORTED : r,
		    bps);
}
