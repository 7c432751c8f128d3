/* A sample as rows of the tables. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/mem.h"
#include "core/text/put.h"
#include "output/mysql/mysql_int.h"

#define MIB             1048576.0
#define TEXT_MAX        512 /* bytes of a value; more than any column takes */
#define PROCESSES_MAX   256 /* rows of a sample, as the next */
#define JOBS_MAX        256
#define STATEMENT_BYTES 4096

const char *mysql_format_time(int64_t wall_ns, bool is_whole, char out[MYSQL_TIME_BYTES])
{
	time_t s = (time_t)(wall_ns / 1000000000);
	struct tm tm;
	size_t n;

	gmtime_r(&s, &tm);
	n = strftime(out, MYSQL_TIME_BYTES, "%Y-%m-%d %H:%M:%S", &tm);
	if (!is_whole)
		snprintf(out + n, MYSQL_TIME_BYTES - n, ".%03d",
			 (int)(wall_ns % 1000000000 / 1000000));
	return out;
}

/* --- values --- */

static void put_null(struct gs_wire_out *out)
{
	gs_wire_put_u8(out, MYSQL_VALUE_NULL);
}

static void put_integer(struct gs_wire_out *out, int64_t value)
{
	gs_wire_put_u8(out, MYSQL_VALUE_INTEGER);
	gs_wire_put_u64(out, (uint64_t)value);
}

/* Numbers that are not known are negative. */
static void put_known(struct gs_wire_out *out, int64_t value)
{
	if (value < 0)
		put_null(out);
	else
		put_integer(out, value);
}

static void put_real(struct gs_wire_out *out, double value)
{
	uint64_t bits;

	if (!isfinite(value)) {
		put_null(out);
		return;
	}
	memcpy(&bits, &value, sizeof(bits));
	gs_wire_put_u8(out, MYSQL_VALUE_REAL);
	gs_wire_put_u64(out, bits);
}

static void put_ratio(struct gs_wire_out *out, double value)
{
	put_real(out, value < 0 ? NAN : value);
}

/* At most n_chars characters, which is what a column counts. "" is not known. */
static void put_text(struct gs_wire_out *out, const char *text, size_t n_chars)
{
	char clean[3 * TEXT_MAX + 1];
	size_t n = 0;

	if (!text[0]) {
		put_null(out);
		return;
	}
	*gs_put_utf8(clean, text, TEXT_MAX) = '\0';
	for (char *c = clean; *c; c++)
		if ((*c & 0xc0) != 0x80 && ++n > n_chars) {
			*c = '\0';
			break;
		}
	gs_wire_put_u8(out, MYSQL_VALUE_TEXT);
	gs_wire_put_text(out, clean);
}

/* --- tables --- */

struct row_writer {
	struct gs_wire_out *out;
	unsigned tables; /* enum gs_mysql_tables, ored */
	const char *node, *time;
};

static bool begin_table(struct row_writer *w, enum mysql_table_id id)
{
	const struct mysql_table *t = &mysql_tables[id];
	GS_CLEANUP(gs_buf_fini) struct gs_buf insert = GS_BUF_INIT(STATEMENT_BYTES);

	if (!(w->tables & t->schemas))
		return false;
	if (mysql_put_insert(id, &insert) < 0) {
		w->out->r = w->out->r < 0 ? w->out->r : insert.r;
		return false;
	}
	gs_wire_put_u8(w->out, 1);
	(void)gs_buf_put(&insert, "", 1);
	gs_wire_put_text(w->out, (const char *)insert.data);
	gs_wire_put_text(w->out, t->tail);
	gs_wire_put_u16(w->out, (uint16_t)(t->n_columns + t->n_fields));
	return true;
}

static void end_table(struct row_writer *w)
{
	gs_wire_put_u8(w->out, 0);
}

/* Time and node, with which each row begins. */
static void begin_row(struct row_writer *w)
{
	gs_wire_put_u8(w->out, 1);
	put_text(w->out, w->time, MYSQL_TIME_BYTES);
	put_text(w->out, w->node, 64);
}

static void put_node(struct row_writer *w, const struct gs_node_snapshot *node)
{
	const struct gs_host_sample *h = &node->host->sample;

	if (!begin_table(w, MYSQL_NODE_SAMPLE))
		return;
	begin_row(w);
	put_ratio(w->out, h->cpu_ratio);
	put_ratio(w->out, h->iowait_ratio);
	put_ratio(w->out, h->load1);
	put_known(w->out, h->n_cpus);
	put_known(w->out, h->n_tasks);
	put_known(w->out, h->mem_total_bytes);
	put_known(w->out, h->mem_used_bytes);
	put_known(w->out, h->swap_total_bytes);
	put_known(w->out, h->swap_used_bytes);
	put_ratio(w->out, h->disk_read_bps);
	put_ratio(w->out, h->disk_write_bps);
	put_ratio(w->out, h->net_rx_bps);
	put_ratio(w->out, h->net_tx_bps);
	put_integer(w->out, node->gpu->n_gpus);
	end_table(w);
}

static void put_gpus(struct row_writer *w, const struct gs_gpu_snapshot *gpus)
{
	const struct mysql_table *t = &mysql_tables[MYSQL_GPU_SAMPLE];
	char number[GS_GPU_NUMBER_BYTES];

	if (!gpus->n_gpus || !begin_table(w, MYSQL_GPU))
		return;
	for (uint32_t i = 0; i < gpus->n_gpus; i++) {
		const struct gs_gpu_info *g = &gpus->info[i];

		begin_row(w);
		put_text(w->out, gs_gpu_number(number, g), 24);
		put_text(w->out, g->uuid, 80);
		put_text(w->out, g->name, 96);
		put_text(w->out, g->pci_bus_id, 32);
		put_text(w->out, g->driver_version, 32);
	}
	end_table(w);
	(void)begin_table(w, MYSQL_GPU_SAMPLE);
	for (uint32_t i = 0; i < gpus->n_gpus; i++) {
		const struct gs_gpu_sample *s = &gpus->sample[i];

		begin_row(w);
		put_text(w->out, gs_gpu_number(number, &gpus->info[i]), 24);
		put_text(w->out, gpus->info[i].uuid, 80);
		/* What is known of one that is lost is of a time before. */
		for (size_t k = 0; k < t->n_fields; k++)
			put_real(w->out, s->lost ? NAN : gs_gpu_value(s, t->field[k]));
	}
	end_table(w);
}

static void put_processes(struct row_writer *w, const struct gs_node_snapshot *node)
{
	const struct gs_gpu_snapshot *gpus = node->gpu;
	uint32_t n = gpus->n_processes < PROCESSES_MAX ? gpus->n_processes : PROCESSES_MAX;
	char number[GS_GPU_NUMBER_BYTES];

	if (!n || !begin_table(w, MYSQL_PROCESS_SAMPLE))
		return;
	for (uint32_t i = 0; i < n; i++) {
		const struct gs_gpu_process *p = &gpus->process[i];
		const struct gs_host_process *h = gs_host_process_of(node->host, p->pid);

		if (p->ended || p->gpu >= gpus->n_gpus)
			continue;
		begin_row(w);
		put_text(w->out, gs_gpu_number(number, &gpus->info[p->gpu]), 24);
		put_integer(w->out, p->pid);
		put_text(w->out, p->comm, 16);
		put_text(w->out, h && h->user[0] ? h->user : p->user, 32);
		put_text(w->out, h && h->container[0] ? h->container : p->container, 72);
		put_text(w->out, h && h->job[0] ? h->job : p->job, 64);
		put_known(w->out, p->used_bytes);
		put_ratio(w->out, p->sm_ratio);
		put_ratio(w->out, p->mem_ratio);
	}
	end_table(w);
}

static void put_jobs(struct row_writer *w, const struct gs_job_accounts *jobs)
{
	uint32_t n = 0;

	if (!jobs || !jobs->n_accounts || !begin_table(w, MYSQL_JOB_SAMPLE))
		return;
	for (uint32_t i = 0; i < jobs->n_accounts && n < JOBS_MAX; i++) {
		const struct gs_job_account *a = &jobs->account[i];

		if (!a->n_processes) /* it has ended */
			continue;
		n++;
		begin_row(w);
		put_text(w->out, a->job.id, 64);
		put_text(w->out, gs_job_kind_name(a->job.kind), 16);
		put_text(w->out, a->job.user, 32);
		put_text(w->out, a->job.account, 64);
		put_text(w->out, a->job.partition, 64);
		put_text(w->out, a->job.name, 128);
		put_integer(w->out, a->n_processes);
		put_ratio(w->out, a->cpus);
		put_known(w->out, a->memory_bytes);
		put_known(w->out, a->n_gpus);
		put_known(w->out, a->gpus_idle);
		put_ratio(w->out, a->gpu_ratio);
		put_known(w->out, a->gpu_memory_bytes);
		put_ratio(w->out, a->io_bps);
		put_ratio(w->out, a->net_bps);
		put_ratio(w->out, a->energy_joules);
		put_text(w->out, a->job_class, 48);
		put_ratio(w->out, a->job_class[0] ? a->score : NAN);
	}
	end_table(w);
}

/* --- eACGM's --- */

struct gpu_sums {          /* over all GPUs; NAN: not known of any */
	double load_ratio; /* mean */
	double total_bytes, used_bytes;
};

static struct gpu_sums sum_gpus(const struct gs_gpu_snapshot *gpus)
{
	struct gpu_sums sums = {NAN, NAN, NAN};
	double load = 0, total = 0, used = 0;
	unsigned n_load = 0, n_memory = 0;

	for (uint32_t i = 0; i < gpus->n_gpus; i++) {
		const struct gs_gpu_sample *s = &gpus->sample[i];

		if (s->lost || gpus->info[i].is_mig) /* which its GPU has already */
			continue;
		if (gs_gpu_has(s, GS_GPU_UTIL)) {
			load += s->value[GS_GPU_UTIL];
			n_load++;
		}
		if (gs_gpu_has(s, GS_GPU_MEM_TOTAL) && gs_gpu_has(s, GS_GPU_MEM_USED)) {
			total += s->value[GS_GPU_MEM_TOTAL];
			used += s->value[GS_GPU_MEM_USED];
			n_memory++;
		}
	}
	if (n_load)
		sums.load_ratio = load / n_load;
	if (n_memory) {
		sums.total_bytes = total;
		sums.used_bytes = used;
	}
	return sums;
}

static void put_pair(struct row_writer *w, enum mysql_table_id table, double a, double b)
{
	if (!begin_table(w, table))
		return;
	begin_row(w);
	put_real(w->out, a);
	put_real(w->out, b);
	end_table(w);
}

static double mib_of(double bytes)
{
	return bytes < 0 ? NAN : bytes / MIB;
}

static void put_eacgm(struct row_writer *w, const struct gs_node_snapshot *node)
{
	const struct gs_host_sample *h = &node->host->sample;
	struct gpu_sums gpus = sum_gpus(node->gpu);

	if (begin_table(w, MYSQL_GAUGE)) {
		begin_row(w);
		put_ratio(w->out, 100 * h->cpu_ratio);
		put_ratio(w->out, h->mem_total_bytes > 0 ? 100.0 * (double)h->mem_used_bytes /
								   (double)h->mem_total_bytes
							 : NAN);
		put_real(w->out, gpus.load_ratio);
		put_real(w->out, gpus.used_bytes / gpus.total_bytes);
		end_table(w);
	}
	put_pair(w, MYSQL_MEMORY, mib_of((double)h->mem_total_bytes),
		 mib_of((double)h->mem_used_bytes));
	put_pair(w, MYSQL_GPUMEM, mib_of(gpus.total_bytes), mib_of(gpus.used_bytes));
	put_pair(w, MYSQL_DISKIO, mib_of(h->disk_read_bps), mib_of(h->disk_write_bps));
	put_pair(w, MYSQL_NETIO, mib_of(h->net_tx_bps), mib_of(h->net_rx_bps));
}

/* Clients as "10.0.0.1.11434", as eACGM has them from tcpdump: with the server's port, where theirs is another for each
 * connection. */
static void put_ollama(struct row_writer *w, const struct gs_traffic_growth *traffic)
{
	double seconds = (double)traffic->ns / 1e9;
	char name[64];

	if (begin_table(w, MYSQL_OLLAMANET)) {
		begin_row(w);
		put_real(w->out, (double)traffic->requests / seconds);
		put_real(w->out, traffic->sends_known ? (double)traffic->sends / seconds : NAN);
		end_table(w);
	}
	if (!traffic->n_askers || !begin_table(w, MYSQL_IPPORT))
		return;
	for (size_t i = 0; i < traffic->n_askers; i++) {
		const struct gs_traffic_asker *a = &traffic->asker[i];

		snprintf(name, sizeof(name), "%s.%u", a->address[0] ? a->address : "other",
			 traffic->port);
		gs_wire_put_u8(w->out, 1);
		put_text(w->out, name, 255);
		put_integer(w->out, (int64_t)a->requests);
	}
	end_table(w);
}

void mysql_put_sample(struct gs_wire_out *out, unsigned tables, const char *node_name,
		      const struct gs_node_snapshot *node, const struct gs_traffic_growth *traffic)
{
	char time[MYSQL_TIME_BYTES];
	struct row_writer w = {.out = out,
			       .tables = tables,
			       .node = node_name,
			       .time = mysql_format_time(node->wall_ns, false, time)};

	put_node(&w, node);
	put_gpus(&w, node->gpu);
	put_processes(&w, node);
	put_jobs(&w, node->jobs);
	w.time = mysql_format_time(node->wall_ns, true, time);
	put_eacgm(&w, node);
	if (traffic)
		put_ollama(&w, traffic);
	gs_wire_put_u8(out, 0);
}
