/*
 * libmariadb, opened at run time, in the sender: one connection, on which a batch is one transaction.
 *
 * A transaction begins with the stream's row: UPDATE ... WHERE batch < N locks it and changes nothing
 * when the batch is stored already. Another connection that still has this batch open, as of a sender
 * that was killed, is waited for there, so that a batch can neither be missed nor be stored twice.
 */
#include "output/mysql/mysql_int.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "output/mysql/mysql_abi.h"

#define TIMEOUT_S            10
#define READ_TIMEOUT_S       30   /* longer than the server waits for a lock, see settings */
#define PLACEHOLDERS_MAX     4096 /* of one statement */
#define COLUMNS_MAX          64
#define STATEMENT_MAX        (256u << 10)
#define MYSQL_WRONG_VALUE    1366 /* ER_TRUNCATED_WRONG_VALUE_FOR_FIELD */
#define MYSQL_CHECK_VIOLATED 3819 /* ER_CHECK_CONSTRAINT_VIOLATED; MariaDB: 4025, of class 23 */
#define CLIENT_ERROR_FIRST                                                                         \
	2000 /* errors of the library itself, errmsg.h: 2000 to 2999, and 5000 on */
#define CLIENT_ERROR_LAST 2999
#define CLIENT_ERROR_MORE 5000

/* Plug-ins that never send the password itself without TLS. */
#define METHODS "mysql_native_password,client_ed25519,caching_sha2_password"
static const char settings[] =
	"SET time_zone = '+00:00', sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION', innodb_lock_wait_timeout = 10, autocommit = 1";

static struct {
	int (*server_init)(int argc, char **argv, char **groups);
	void *(*init)(void *conn);
	int (*options)(void *conn, int option, const void *value);
	void *(*real_connect)(void *conn, const char *host, const char *user, const char *password,
			      const char *database, unsigned int port, const char *socket,
			      unsigned long flags);
	void (*close)(void *conn);
	unsigned int (*error_number)(void *conn);
	const char *(*error)(void *conn);
	const char *(*sqlstate)(void *conn);
	const char *(*get_ssl_cipher)(void *conn);
	int (*real_query)(void *conn, const char *text, unsigned long bytes);
	void *(*stmt_init)(void *conn);
	int (*stmt_prepare)(void *stmt, const char *text, unsigned long bytes);
	char (*stmt_bind_param)(void *stmt, struct gs_mysql_bind *bind);
	int (*stmt_execute)(void *stmt);
	unsigned long long (*stmt_affected_rows)(void *stmt);
	unsigned int (*stmt_errno)(void *stmt);
	const char *(*stmt_error)(void *stmt);
	const char *(*stmt_sqlstate)(void *stmt);
	char (*stmt_close)(void *stmt);
} library;

static void *connection; /* NULL: none */

const char *mysql_load_library(void)
{
	static const struct {
		const char *name;
		void *at;
	} symbols[] = {
		{"mysql_server_init", &library.server_init},
		{"mysql_init", &library.init},
		{"mysql_options", &library.options},
		{"mysql_real_connect", &library.real_connect},
		{"mysql_close", &library.close},
		{"mysql_errno", &library.error_number},
		{"mysql_error", &library.error},
		{"mysql_sqlstate", &library.sqlstate},
		{"mysql_get_ssl_cipher", &library.get_ssl_cipher},
		{"mysql_real_query", &library.real_query},
		{"mysql_stmt_init", &library.stmt_init},
		{"mysql_stmt_prepare", &library.stmt_prepare},
		{"mysql_stmt_bind_param", &library.stmt_bind_param},
		{"mysql_stmt_execute", &library.stmt_execute},
		{"mysql_stmt_affected_rows", &library.stmt_affected_rows},
		{"mysql_stmt_errno", &library.stmt_errno},
		{"mysql_stmt_error", &library.stmt_error},
		{"mysql_stmt_sqlstate", &library.stmt_sqlstate},
		{"mysql_stmt_close", &library.stmt_close},
	};
	static char why_not[256];
	void *file = dlopen("libmariadb.so.3", RTLD_NOW | RTLD_LOCAL);

	if (!file)
		return "libmariadb.so.3, which speaks to MySQL and MariaDB, was not found: install libmariadb3 (Debian, Ubuntu) or mariadb-connector-c (Fedora, EL)";
	for (size_t i = 0; i < GS_ARRAY_LEN(symbols); i++) {
		void *p = dlsym(file, symbols[i].name);

		if (!p) {
			snprintf(why_not, sizeof(why_not), "libmariadb lacks %s: it is too old",
				 symbols[i].name);
			return why_not;
		}
		memcpy(symbols[i].at, &p, sizeof(p));
	}
	return library.server_init(0, NULL, NULL) == 0 ? "" : "libmariadb does not start";
}

const char *gs_mysql_missing(void)
{
	return mysql_load_library();
}

static void close_connection(void)
{
	if (connection)
		library.close(connection);
	connection = NULL;
}

/* --- errors --- */

static void set_failure(struct mysql_result *ret, unsigned number, const char *state,
			const char *text)
{
	bool of_connection = (number >= CLIENT_ERROR_FIRST && number <= CLIENT_ERROR_LAST) ||
			     number >= CLIENT_ERROR_MORE;
	/* SQLSTATE classes of ISO 9075: 22, a value that the column does not take; 23, a constraint. MySQL gives two of
	 * these the general state HY000. */
	bool of_data = strncmp(state, "22", 2) == 0 || strncmp(state, "23", 2) == 0 ||
		       number == MYSQL_WRONG_VALUE || number == MYSQL_CHECK_VIOLATED;

	ret->outcome = of_connection ? MYSQL_GONE : of_data ? MYSQL_REFUSED : MYSQL_FAILED;
	snprintf(ret->text, sizeof(ret->text), "%s (error %u)", text, number);
}

static void take_failure(struct mysql_result *ret)
{
	set_failure(ret, library.error_number(connection), library.sqlstate(connection),
		    library.error(connection));
}

/* False with ret filled. */
static bool run_query(const char *text, struct mysql_result *ret)
{
	if (library.real_query(connection, text, strlen(text)) == 0)
		return true;
	take_failure(ret);
	return false;
}

/* --- statements with values --- */

struct parameter {
	struct gs_mysql_bind bind;
	int64_t integer;
	double real;
	unsigned long length;
};

static void bind_null(struct parameter *p)
{
	p->bind = (struct gs_mysql_bind){.buffer_type = GS_MYSQL_TYPE_NULL};
}

static void bind_integer(struct parameter *p, uint64_t value, bool is_unsigned)
{
	p->integer = (int64_t)value;
	p->bind = (struct gs_mysql_bind){.buffer_type = GS_MYSQL_TYPE_LONGLONG,
					 .buffer = &p->integer,
					 .is_unsigned = is_unsigned};
}

static void bind_real(struct parameter *p, uint64_t bits)
{
	memcpy(&p->real, &bits, sizeof(bits));
	p->bind = (struct gs_mysql_bind){.buffer_type = GS_MYSQL_TYPE_DOUBLE, .buffer = &p->real};
}

static void bind_text(struct parameter *p, const char *text)
{
	p->length = strlen(text);
	p->bind = (struct gs_mysql_bind){.buffer_type = GS_MYSQL_TYPE_STRING,
					 .buffer = (void *)(uintptr_t)text,
					 .buffer_length = p->length,
					 .length = &p->length};
}

/* False with ret filled. ret_n_changed may be NULL. */
static bool run_statement(const char *text, const struct parameter *parameter, size_t n,
			  uint64_t *ret_n_changed, struct mysql_result *ret)
{
	GS_FREE struct gs_mysql_bind *bind = calloc(n ? n : 1, sizeof(*bind));
	void *stmt = bind ? library.stmt_init(connection) : NULL;
	bool done;

	if (!stmt) {
		set_failure(ret, 0, "", "no memory");
		return false;
	}
	for (size_t i = 0; i < n; i++)
		bind[i] = parameter[i].bind;
	done = library.stmt_prepare(stmt, text, strlen(text)) == 0 &&
	       library.stmt_bind_param(stmt, bind) == 0 && library.stmt_execute(stmt) == 0;
	if (!done)
		set_failure(ret, library.stmt_errno(stmt), library.stmt_sqlstate(stmt),
			    library.stmt_error(stmt));
	else if (ret_n_changed)
		*ret_n_changed = library.stmt_affected_rows(stmt);
	(void)library.stmt_close(stmt);
	return done;
}

/* --- the connection --- */

static void set_options(const struct mysql_target *t, const char *ca_file)
{
	unsigned int timeout_s = TIMEOUT_S, read_s = READ_TIMEOUT_S, no = 0,
		     protocol = t->host ? GS_MYSQL_PROTOCOL_TCP : GS_MYSQL_PROTOCOL_SOCKET;
	char yes = 1;

	library.options(connection, GS_MYSQL_OPT_CONNECT_TIMEOUT, &timeout_s);
	library.options(connection, GS_MYSQL_OPT_READ_TIMEOUT, &read_s);
	library.options(connection, GS_MYSQL_OPT_WRITE_TIMEOUT, &timeout_s);
	library.options(connection, GS_MYSQL_OPT_PROTOCOL, &protocol);
	library.options(connection, GS_MYSQL_SET_CHARSET_NAME, "utf8mb4");
	/* A server could else ask for files of this machine. */
	library.options(connection, GS_MYSQL_OPT_LOCAL_INFILE, &no);
	library.options(connection, GS_MARIADB_OPT_RESTRICTED_AUTH, METHODS);
	if (t->tls) {
		library.options(connection, GS_MYSQL_OPT_SSL_ENFORCE, &yes);
		library.options(connection, GS_MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &yes);
		if (ca_file[0])
			library.options(connection, GS_MYSQL_OPT_SSL_CA, ca_file);
	}
}

void mysql_connect_server(const struct mysql_target *t, const char *ca_file,
			  struct mysql_result *ret)
{
	close_connection();
	connection = library.init(NULL);
	if (!connection) {
		set_failure(ret, 0, "", "no memory");
		return;
	}
	set_options(t, ca_file);
	if (!library.real_connect(connection, t->host, t->user, t->password, t->database, t->port,
				  t->socket, 0)) {
		take_failure(ret);
		ret->outcome = MYSQL_GONE;
	} else if (t->tls && !library.get_ssl_cipher(connection)) {
		set_failure(ret, CLIENT_ERROR_FIRST, "", "the server has no TLS");
	} else if (run_query(settings, ret)) {
		return;
	}
	close_connection();
}

/* --- a batch --- */

static bool enter_batch(const struct mysql_batch *b, struct mysql_result *ret)
{
	struct parameter row[2], counts[5];
	uint64_t n_changed = 0;

	bind_integer(&row[0], b->stream, true);
	bind_text(&row[1], b->node);
	bind_integer(&counts[0], b->seq, true);
	bind_integer(&counts[1], b->n_samples, true);
	bind_integer(&counts[2], b->n_lost_samples, true);
	bind_integer(&counts[3], b->stream, true);
	bind_integer(&counts[4], b->seq, true);
	if (!run_query("START TRANSACTION", ret) ||
	    !run_statement("INSERT IGNORE INTO `gpuscope_stream` (`stream`, `node`) VALUES (?, ?)",
			   row, 2, NULL, ret) ||
	    !run_statement(
		    "UPDATE `gpuscope_stream` SET `batch` = ?, `samples` = `samples` + ?, `lost_samples` = ?, `stored` = UTC_TIMESTAMP(3) WHERE `stream` = ? AND `batch` < ?",
		    counts, 5, &n_changed, ret))
		return false;
	if (n_changed == 0)
		ret->outcome = MYSQL_DONE_BEFORE;
	return n_changed != 0;
}

static bool take_value(struct gs_wire_in *in, struct parameter *p)
{
	const char *text;

	switch (gs_wire_u8(in)) {
	case MYSQL_VALUE_NULL:
		bind_null(p);
		break;
	case MYSQL_VALUE_INTEGER:
		bind_integer(p, gs_wire_u64(in), false);
		break;
	case MYSQL_VALUE_REAL:
		bind_real(p, gs_wire_u64(in));
		break;
	case MYSQL_VALUE_TEXT:
		text = gs_wire_text(in);
		bind_text(p, text ? text : "");
		break;
	default:
		in->bad = true;
	}
	return !in->bad;
}

static bool insert_rows(const char *insert, const char *tail, size_t n_columns,
			const struct parameter *parameter, size_t n_rows, struct mysql_result *ret)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf text = GS_BUF_INIT(STATEMENT_MAX);

	if (n_rows == 0)
		return true;
	(void)gs_buf_puts(&text, insert);
	for (size_t i = 0; i < n_rows; i++) {
		(void)gs_buf_puts(&text, i ? ", (?" : "(?");
		for (size_t k = 1; k < n_columns; k++)
			(void)gs_buf_puts(&text, ", ?");
		(void)gs_buf_puts(&text, ")");
	}
	(void)gs_buf_puts(&text, tail);
	(void)gs_buf_put(&text, "", 1);
	if (text.r < 0) {
		set_failure(ret, 0, "", "no memory");
		return false;
	}
	return run_statement((const char *)text.data, parameter, n_rows * n_columns, NULL, ret);
}

static bool insert_table(struct gs_wire_in *in, struct parameter *parameter,
			 struct mysql_result *ret)
{
	const char *insert = gs_wire_text(in), *tail = gs_wire_text(in);
	size_t n_columns = gs_wire_u16(in), n_rows = 0;

	in->bad |= !insert || !tail || n_columns == 0 || n_columns > COLUMNS_MAX;
	while (!in->bad && gs_wire_u8(in) == 1) {
		for (size_t i = 0; i < n_columns; i++)
			if (!take_value(in, &parameter[n_rows * n_columns + i]))
				break;
		n_rows++;
		if (in->bad || (n_rows + 1) * n_columns <= PLACEHOLDERS_MAX)
			continue;
		if (!insert_rows(insert, tail, n_columns, parameter, n_rows, ret))
			return false;
		n_rows = 0;
	}
	return !in->bad && insert_rows(insert, tail, n_columns, parameter, n_rows, ret);
}

static bool insert_batch(const struct mysql_batch *b, struct mysql_result *ret)
{
	struct gs_wire_in in = GS_WIRE_IN((uint8_t *)(uintptr_t)b->rows, b->bytes);
	GS_FREE struct parameter *parameter = calloc(PLACEHOLDERS_MAX, sizeof(*parameter));

	if (!parameter) {
		set_failure(ret, 0, "", "no memory");
		return false;
	}
	while (gs_wire_u8(&in) == 1)
		if (!insert_table(&in, parameter, ret) && !in.bad)
			return false;
	if (gs_wire_is_done(&in))
		return true;
	ret->outcome = MYSQL_REFUSED;
	snprintf(ret->text, sizeof(ret->text), "the batch in the spool is damaged");
	return false;
}

void mysql_store_batch(const struct mysql_batch *b, struct mysql_result *ret)
{
	struct mysql_result undone = {0};

	if (!connection) {
		set_failure(ret, CLIENT_ERROR_FIRST, "", "not connected");
		return;
	}
	if (enter_batch(b, ret) && insert_batch(b, ret) && run_query("COMMIT", ret))
		return;
	/* Where it cannot be undone, closing the connection undoes it. */
	if (ret->outcome != MYSQL_GONE && !run_query("ROLLBACK", &undone) &&
	    ret->outcome == MYSQL_FAILED)
		ret->outcome = MYSQL_GONE;
	if (ret->outcome == MYSQL_GONE || undone.outcome != MYSQL_DONE)
		close_connection();
}

void mysql_delete_rows(const struct mysql_delete *d, struct mysql_result *ret)
{
	struct parameter row[2];
	char text[256];

	if (!connection) {
		set_failure(ret, CLIENT_ERROR_FIRST, "", "not connected");
		return;
	}
	bind_text(&row[0], d->node);
	bind_text(&row[1], d->before);
	/* The names are the holder's own (schema.c). */
	snprintf(text, sizeof(text), "DELETE FROM `%s` WHERE `node` = ? AND `%s` < ? LIMIT %u",
		 d->table, d->time_column, d->n_max);
	(void)run_statement(text, row, 2, &ret->n_rows, ret);
	if (ret->outcome == MYSQL_GONE)
		close_connection();
}
