/*
 * The tables: one declaration of each, from which CREATE TABLE, INSERT and the rights come.
 *
 * gpuscope's own have the names and base units of gpuscope's JSON. Times are DATETIME(3) in UTC. Rows
 * of one node lie together, by time, which is how retention and dashboards read them.
 *
 * eACGM's are those of its grafana/init.sql, in its units (percent, shares, MiB, MiB/s). Its statements
 * know no node: that column is invisible, so that SELECT * and INSERT without names work as before.
 * CudaEvent and events are created, for its dashboard asks for them, and not written;
 * packaging/mysql/timeline.py fills the first from a trace. In ollamanet and ipport, where eACGM counts
 * packets, are requests, sends (of which a server that streams makes one a token) and requests by client.
 */
#include <errno.h>
#include <string.h>

#include "core/base/mem.h"
#include "output/mysql/mysql_int.h"

#define TIME_MS  "DATETIME(3) NOT NULL"
#define NODE     "VARCHAR(64) NOT NULL"
#define BIG      "BIGINT"
#define UTF8(n)  "VARCHAR(" #n ")"
#define REAL     "DOUBLE"
#define ENGINE   "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"
#define EACGM    "DATETIME NOT NULL"
#define NOT_SEEN "VARCHAR(64) NOT NULL DEFAULT '' INVISIBLE"

static const struct mysql_column node_columns[] = {
	{"time", TIME_MS},
	{"node", NODE},
	{"cpu_ratio", REAL},
	{"iowait_ratio", REAL},
	{"load1", REAL},
	{"processors", BIG},
	{"threads", BIG},
	{"memory_total_bytes", BIG},
	{"memory_used_bytes", BIG},
	{"swap_total_bytes", BIG},
	{"swap_used_bytes", BIG},
	{"disk_read_bytes_per_second", REAL},
	{"disk_written_bytes_per_second", REAL},
	{"network_received_bytes_per_second", REAL},
	{"network_sent_bytes_per_second", REAL},
	{"gpus", BIG},
};

static const struct mysql_column gpu_columns[] = {
	{"seen", TIME_MS},
	{"node", NODE},
	{"gpu", UTF8(24) " NOT NULL"},
	{"uuid", UTF8(80)},
	{"name", UTF8(96)},
	{"pci_bus_id", UTF8(32)},
	{"driver_version", UTF8(32)},
};

static const struct mysql_column gpu_sample_columns[] = {
	{"time", TIME_MS},
	{"node", NODE},
	{"gpu", UTF8(24) " NOT NULL"},
	{"uuid", UTF8(80)},
};

/* What dashboards and accounts are made of; everything else is in /metrics and at a head. */
static const enum gs_gpu_field gpu_sample_fields[] = {
	GS_GPU_UTIL,
	GS_GPU_MEM_UTIL,
	GS_GPU_ENC_UTIL,
	GS_GPU_DEC_UTIL,
	GS_GPU_MEM_TOTAL,
	GS_GPU_MEM_USED,
	GS_GPU_TEMP_GPU,
	GS_GPU_TEMP_MEM,
	GS_GPU_POWER,
	GS_GPU_POWER_LIMIT,
	GS_GPU_ENERGY,
	GS_GPU_CLOCK_SM,
	GS_GPU_CLOCK_MEM,
	GS_GPU_FAN,
	GS_GPU_SM_ACTIVE,
	GS_GPU_SM_OCCUPANCY,
	GS_GPU_PIPE_TENSOR,
	GS_GPU_DRAM_ACTIVE,
	GS_GPU_PCIE_TX_BPS,
	GS_GPU_PCIE_RX_BPS,
	GS_GPU_NVLINK_TX_BPS,
	GS_GPU_NVLINK_RX_BPS,
	GS_GPU_ECC_CORRECTED,
	GS_GPU_ECC_UNCORRECTED,
	GS_GPU_THROTTLE_REASONS,
};

static const struct mysql_column process_columns[] = {
	{"time", TIME_MS},        {"node", NODE},         {"gpu", UTF8(24) " NOT NULL"},
	{"pid", BIG " NOT NULL"}, {"comm", UTF8(16)},     {"user", UTF8(32)},
	{"container", UTF8(72)},  {"job", UTF8(64)},      {"gpu_memory_bytes", BIG},
	{"sm_ratio", REAL},       {"memory_ratio", REAL},
};

static const struct mysql_column job_columns[] = {
	{"time", TIME_MS},
	{"node", NODE},
	{"job", UTF8(64) " NOT NULL"},
	{"kind", UTF8(16)},
	{"user", UTF8(32)},
	{"account", UTF8(64)},
	{"partition", UTF8(64)},
	{"name", UTF8(128)},
	{"processes", BIG},
	{"cpu_ratio", REAL},
	{"memory_bytes", BIG},
	{"gpus", BIG},
	{"gpus_idle", BIG},
	{"gpu_ratio", REAL},
	{"gpu_memory_bytes", BIG},
	{"io_bytes_per_second", REAL},
	{"network_bytes_per_second", REAL},
	{"energy_joules", REAL},
	{"class", UTF8(48)},
	{"efficiency_score", REAL},
};

static const struct mysql_column gauge_columns[] = {
	{"TIME", EACGM}, {"node", NOT_SEEN}, {"cpu", REAL},
	{"mem", REAL},   {"gpu_load", REAL}, {"gpu_mem", REAL},
};
static const struct mysql_column amount_columns[] = {
	{"TIME", EACGM}, {"node", NOT_SEEN}, {"total", REAL}, {"used", REAL}};
static const struct mysql_column disk_columns[] = {
	{"TIME", EACGM}, {"node", NOT_SEEN}, {"read_rate", REAL}, {"write_rate", REAL}};
static const struct mysql_column net_columns[] = {
	{"TIME", EACGM}, {"node", NOT_SEEN}, {"send_rate", REAL}, {"recv_rate", REAL}};
static const struct mysql_column ollama_columns[] = {
	{"time", EACGM}, {"node", NOT_SEEN}, {"request", REAL}, {"token", REAL}};
static const struct mysql_column ipport_columns[] = {{"ipport", UTF8(255) " NOT NULL PRIMARY KEY"},
						     {"cnt", BIG}};

#define ROWS(table_name, schema, array)                                                            \
	.name = table_name, .schemas = GS_MYSQL_TABLES_##schema, .column = array,                  \
	.n_columns = GS_ARRAY_LEN(array)
#define BY_TIME    ",\n  KEY by_node (`node`, `time`),\n  KEY by_time (`time`)"
#define EACGM_KEYS ",\n  KEY by_node (`node`, `TIME`),\n  KEY by_time (`TIME`)"

const struct mysql_table mysql_tables[MYSQL_TABLES] = {
	[MYSQL_NODE_SAMPLE] = {ROWS("node_sample", OWN, node_columns),
			       .keys = ",\n  PRIMARY KEY (`node`, `time`),\n  KEY by_time (`time`)",
			       .tail = ""},
	[MYSQL_GPU] = {ROWS("gpu", OWN, gpu_columns), .keys = ",\n  PRIMARY KEY (`node`, `gpu`)",
		       .tail = " ON DUPLICATE KEY UPDATE `seen` = VALUES(`seen`), "
			       "`uuid` = VALUES(`uuid`), `name` = VALUES(`name`), "
			       "`pci_bus_id` = VALUES(`pci_bus_id`), "
			       "`driver_version` = VALUES(`driver_version`)",
		       .is_kept = true},
	[MYSQL_GPU_SAMPLE] =
		{ROWS("gpu_sample", OWN, gpu_sample_columns), .field = gpu_sample_fields,
		 .n_fields = GS_ARRAY_LEN(gpu_sample_fields),
		 .keys = ",\n  PRIMARY KEY (`node`, `time`, `gpu`),\n  KEY by_time (`time`)",
		 .tail = ""},
	[MYSQL_PROCESS_SAMPLE] = {ROWS("gpu_process_sample", OWN, process_columns), .keys = BY_TIME,
				  .tail = ""},
	[MYSQL_JOB_SAMPLE] = {ROWS("job_sample", OWN, job_columns), .keys = BY_TIME, .tail = ""},
	[MYSQL_GAUGE] = {ROWS("gauge", EACGM, gauge_columns), .keys = EACGM_KEYS, .tail = ""},
	[MYSQL_MEMORY] = {ROWS("memory", EACGM, amount_columns), .keys = EACGM_KEYS, .tail = ""},
	[MYSQL_GPUMEM] = {ROWS("gpumem", EACGM, amount_columns), .keys = EACGM_KEYS, .tail = ""},
	[MYSQL_DISKIO] = {ROWS("diskio", EACGM, disk_columns), .keys = EACGM_KEYS, .tail = ""},
	[MYSQL_NETIO] = {ROWS("netio", EACGM, net_columns), .keys = EACGM_KEYS, .tail = ""},
	[MYSQL_OLLAMANET] = {ROWS("ollamanet", EACGM, ollama_columns), .keys = BY_TIME, .tail = ""},
	[MYSQL_IPPORT] = {ROWS("ipport", EACGM, ipport_columns), .keys = "",
			  .tail = " ON DUPLICATE KEY UPDATE `cnt` = `cnt` + VALUES(`cnt`)",
			  .is_kept = true},
};

unsigned mysql_schema_tables(int schema)
{
	static const unsigned tables[] = {GS_MYSQL_TABLES_OWN, GS_MYSQL_TABLES_EACGM,
					  GS_MYSQL_TABLES_OWN | GS_MYSQL_TABLES_EACGM};

	return schema >= 0 && (size_t)schema < GS_ARRAY_LEN(tables) ? tables[schema] : 0;
}

int mysql_put_insert(enum mysql_table_id table, struct gs_buf *out)
{
	const struct mysql_table *t = &mysql_tables[table];
	int r = gs_buf_printf(out, "INSERT INTO `%s` (", t->name);

	for (size_t i = 0; r == 0 && i < t->n_columns; i++)
		r = gs_buf_printf(out, "%s`%s`", i ? ", " : "", t->column[i].name);
	for (size_t i = 0; r == 0 && i < t->n_fields; i++)
		r = gs_buf_printf(out, ", `%s`", gs_gpu_field_info(t->field[i])->key);
	return r == 0 ? gs_buf_puts(out, ") VALUES ") : r;
}

/* --- CREATE TABLE --- */

static void put_table(const struct mysql_table *t, struct gs_buf *out)
{
	(void)gs_buf_printf(out, "CREATE TABLE IF NOT EXISTS `%s` (", t->name);
	for (size_t i = 0; i < t->n_columns; i++)
		(void)gs_buf_printf(out, "%s\n  `%s` %s", i ? "," : "", t->column[i].name,
				    t->column[i].type);
	for (size_t i = 0; i < t->n_fields; i++)
		(void)gs_buf_printf(out, ",\n  `%s` " REAL, gs_gpu_field_info(t->field[i])->key);
	(void)gs_buf_printf(out, "%s\n) " ENGINE ";\n\n", t->keys);
}

/* Written by eACGM's other collectors alone. */
static const char eacgm_tables[] =
	"CREATE TABLE IF NOT EXISTS `CudaEvent` (`time` DOUBLE, `event1` CHAR(255), `event2` CHAR(255), `event3` CHAR(255)) " ENGINE
	";\n"
	"CREATE TABLE IF NOT EXISTS `events` (`name` VARCHAR(255) PRIMARY KEY, `cnt` INT) " ENGINE
	";\n\n";

static const char stream_table[] =
	"-- The last batch of each spool, written in the batch's own transaction: never empty it.\n"
	"CREATE TABLE IF NOT EXISTS `gpuscope_stream` (\n"
	"  `stream` BIGINT UNSIGNED NOT NULL PRIMARY KEY,\n"
	"  `node` VARCHAR(64) NOT NULL,\n"
	"  `batch` BIGINT UNSIGNED NOT NULL DEFAULT 0,\n"
	"  `samples` BIGINT UNSIGNED NOT NULL DEFAULT 0,\n"
	"  `lost_samples` BIGINT UNSIGNED NOT NULL DEFAULT 0,\n"
	"  `stored` DATETIME(3)\n"
	") " ENGINE ";\n\n";

int gs_mysql_print_schema(const char *schema, struct gs_buf *out)
{
	unsigned tables = 0;

	for (int i = 0; gs_mysql_schema_names[i]; i++)
		if (strcmp(schema, gs_mysql_schema_names[i]) == 0)
			tables = mysql_schema_tables(i);
	if (!tables)
		return -EINVAL;
	(void)gs_buf_printf(
		out,
		"-- Tables that gpuscope agent writes (mysql.schema: %s), for MariaDB 10.3 and MySQL 8.0.23 or newer.\n"
		"-- Times are UTC.\n\n",
		schema);
	(void)gs_buf_puts(out, stream_table);
	for (size_t i = 0; i < MYSQL_TABLES; i++)
		if (tables & mysql_tables[i].schemas)
			put_table(&mysql_tables[i], out);
	if (tables & GS_MYSQL_TABLES_EACGM)
		(void)gs_buf_puts(out, eacgm_tables);
	(void)gs_buf_puts(
		out,
		"-- Privileges that the agent's user needs, and no more; DELETE only for a retention:\n"
		"-- GRANT SELECT, INSERT, UPDATE ON `gpuscope_stream` TO gpuscope;\n");
	for (size_t i = 0; i < MYSQL_TABLES; i++)
		if (tables & mysql_tables[i].schemas)
			(void)gs_buf_printf(out,
					    "-- GRANT SELECT, INSERT, %s ON `%s` TO gpuscope;\n",
					    mysql_tables[i].is_kept ? "UPDATE" : "DELETE",
					    mysql_tables[i].name);
	return out->r;
}
