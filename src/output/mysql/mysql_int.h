/* Private to the room: tables, rows in messages, and what holder and sender say to each other. */
#ifndef GS_OUTPUT_MYSQL_MYSQL_INT_H
#define GS_OUTPUT_MYSQL_MYSQL_INT_H

#include <stdatomic.h>

#include "core/reader/wire.h"
#include "core/sandbox/sandbox.h"
#include "core/sender/sender.h"
#include "output/mysql/mysql.h"

#define MYSQL_WORK "mysql"

/* --- schema.c --- */

enum mysql_table_id {
	MYSQL_NODE_SAMPLE,
	MYSQL_GPU,
	MYSQL_GPU_SAMPLE,
	MYSQL_PROCESS_SAMPLE,
	MYSQL_JOB_SAMPLE,
	MYSQL_GAUGE,
	MYSQL_MEMORY,
	MYSQL_GPUMEM,
	MYSQL_DISKIO,
	MYSQL_NETIO,
	MYSQL_OLLAMANET,
	MYSQL_IPPORT,
	MYSQL_TABLES
};

struct mysql_column {
	const char *name, *type; /* type: as in CREATE TABLE, with what follows it */
};

struct mysql_table {
	const char *name;
	unsigned schemas; /* enum gs_mysql_tables, one of them */
	const struct mysql_column *
		column; /* n_columns; the first is the time, the second the node, but where is_kept */
	size_t n_columns;
	const enum gs_gpu_field *field; /* n_fields of them follow as columns; NULL none */
	size_t n_fields;
	const char *keys; /* at the end of CREATE TABLE, with a comma in front; "" none */
	const char *tail; /* after the rows of INSERT; "" none */
	bool is_kept;     /* retention does not concern it */
};

extern const struct mysql_table mysql_tables[MYSQL_TABLES];

/* enum gs_mysql_tables, ored, of an index into gs_mysql_schema_names. */
unsigned mysql_schema_tables(int schema);

/* "INSERT INTO `gauge` (`TIME`, ...) VALUES ". 0, -ENOMEM, -ENOBUFS. */
int mysql_put_insert(enum mysql_table_id table, struct gs_buf *out);

/* --- rows.c --- */

/* The rows of a sample, as they stand in a batch: for each table a 1, the text in front of its rows and
 * the one after them, the number of columns, then for each row a 1 and its values, then a 0; at the end
 * a 0. A value is its enum mysql_value, then the value. */
enum mysql_value {
	MYSQL_VALUE_NULL = 0,
	MYSQL_VALUE_INTEGER = 1, /* 64 bits with a sign */
	MYSQL_VALUE_REAL = 2,    /* a double's 64 bits */
	MYSQL_VALUE_TEXT = 3,    /* UTF-8 */
};

/* node_name: what the column node says; traffic: NULL not known. Errors stay in out. */
void mysql_put_sample(struct gs_wire_out *out, unsigned tables, const char *node_name,
		      const struct gs_node_snapshot *node, const struct gs_traffic_growth *traffic);

#define MYSQL_TIME_BYTES 32

/* "2026-01-31 23:59:59.123", UTC; is_whole: without the fraction. Returns out. */
const char *mysql_format_time(int64_t wall_ns, bool is_whole, char out[MYSQL_TIME_BYTES]);

/* --- messages --- */

enum mysql_message {
	MYSQL_HELLO = 1, /* what protects it; a text: why there is no libmariadb, "" there is */
	MYSQL_CONNECT,   /* struct mysql_target; with it the authorities' certificates, if any */
	MYSQL_STORE,     /* struct mysql_batch */
	MYSQL_DELETE,    /* struct mysql_delete */
	MYSQL_RESULT,    /* struct mysql_result */
};

struct mysql_target {                /* texts are lent */
	const char *host, *socket;   /* one of them; the other is NULL */
	uint16_t port;               /* of host */
	const char *database;        /* in which the tables are */
	const char *user, *password; /* password: NULL none */
	bool tls;                    /* required */
	bool has_authorities;        /* those passed are asked, not the system's */
};

struct mysql_batch {
	uint64_t stream, seq;    /* of core/queue */
	uint64_t n_samples;      /* in it */
	uint64_t n_lost_samples; /* so far, of the stream */
	const char *node;        /* lent */
	const uint8_t *rows;     /* lent */
	size_t bytes;            /* of rows */
};

struct mysql_delete {                           /* texts are lent */
	const char *table, *time_column, *node; /* of rows of this node in this table */
	const char *before;                     /* those older than this */
	uint32_t n_max;                         /* no more than this many */
};

enum mysql_outcome {
	MYSQL_DONE,
	MYSQL_DONE_BEFORE, /* the server had this batch */
	MYSQL_REFUSED,     /* will always be: its data are not what the tables take */
	MYSQL_FAILED,      /* try again later; the connection stays */
	MYSQL_GONE,        /* the same without a connection */
	MYSQL_OUTCOMES
};

struct mysql_result {
	enum mysql_outcome outcome;
	uint64_t n_rows; /* removed */
	char text[400];  /* one line: why it failed; "" */
};

/* --- holder.c --- */

struct mysql_holder {
	struct gs_sandbox_child process; /* pid 0: none */
	bool is_connected;
};

/* Have a process that has libmariadb. -ENOENT with err: there is none. */
int mysql_start_sender(struct mysql_holder *h, struct gs_err *err);
void mysql_end_sender(struct mysql_holder *h);

/* Each connects first where there is no connection, and once more where the server has closed it.
 * A sender that ends, hangs or lies is MYSQL_GONE. stop ends it soon after it becomes true. ca_file:
 * "" none. */
void mysql_ask_store(struct mysql_holder *h, const struct mysql_target *target, const char *ca_file,
		     const struct mysql_batch *batch, const atomic_bool *stop,
		     struct mysql_result *ret);
void mysql_ask_delete(struct mysql_holder *h, const struct mysql_target *target,
		      const char *ca_file, const struct mysql_delete *rows, const atomic_bool *stop,
		      struct mysql_result *ret);

/* --- client.c: libmariadb, in the sender --- */

const char *mysql_load_library(void); /* "" it is there; else why not */

/* ca_file: "" the system's. A connection from before is closed. */
void mysql_connect_server(const struct mysql_target *target, const char *ca_file,
			  struct mysql_result *ret);
void mysql_store_batch(const struct mysql_batch *batch, struct mysql_result *ret);
void mysql_delete_rows(const struct mysql_delete *rows, struct mysql_result *ret);

/* A server as one writes it: "HOST", "HOST:PORT", "[IPv6]:PORT" or "unix:/PATH" in parts, of which
 * host or socket is "". False: it is no such text. */
bool mysql_split_server(const char *server, char host[256], char socket[256], uint16_t *ret_port);

#endif
