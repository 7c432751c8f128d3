/* Rows of samples, tables, servers as they are written, and libmariadb's numbers. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifdef GS_HAVE_MYSQL_H
#include <mariadb/mysql.h>
#endif

#include "output/mysql/mysql_abi.h"
#include "output/mysql/mysql_int.h"

static unsigned count_of(const char *text, char wanted)
{
	unsigned n = 0;

	for (; *text; text++)
		n += *text == wanted;
	return n;
}

static void skip_value(struct gs_wire_in *in, char *ret_text, size_t bytes)
{
	const char *text = "";

	switch (gs_wire_u8(in)) {
	case MYSQL_VALUE_INTEGER:
	case MYSQL_VALUE_REAL:
		(void)gs_wire_u64(in);
		break;
	case MYSQL_VALUE_TEXT:
		text = gs_wire_text(in);
		break;
	}
	assert_non_null(text);
	snprintf(ret_text, bytes, "%s", text);
}

/* Each row has as many values as its statement has columns; the last text seen of a column. */
static unsigned check_rows(struct gs_wire_in *in, unsigned column, char *ret_text, size_t bytes)
{
	unsigned n_tables = 0;
	char text[2000];

	while (gs_wire_u8(in) == 1) {
		const char *insert = gs_wire_text(in), *tail = gs_wire_text(in);
		unsigned n_columns = gs_wire_u16(in);

		assert_non_null(insert);
		assert_non_null(tail);
		assert_int_equal(count_of(insert, ',') + 1, n_columns);
		while (gs_wire_u8(in) == 1)
			for (unsigned i = 0; i < n_columns; i++) {
				skip_value(in, text, sizeof(text));
				if (i == column)
					snprintf(ret_text, bytes, "%s", text);
			}
		n_tables++;
	}
	assert_true(gs_wire_is_done(in));
	return n_tables;
}

struct sample {
	struct gs_gpu_info info;
	struct gs_gpu_sample gpu;
	struct gs_gpu_process process;
	struct gs_job_account account;
	struct gs_gpu_snapshot gpus;
	struct gs_host_snapshot host;
	struct gs_job_accounts jobs;
	struct gs_node_snapshot node;
};

static struct sample *make_sample(void)
{
	struct sample *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	s->info = gs_gpu_info_unknown;
	strcpy(s->info.uuid, "GPU-1");
	s->process = (struct gs_gpu_process){.pid = 7, .used_bytes = -1, .sm_ratio = -1};
	s->account.job = gs_job_unknown;
	strcpy(s->account.job.id, "4711");
	s->account.n_processes = 1;
	s->gpus = (struct gs_gpu_snapshot){.info = &s->info,
					   .sample = &s->gpu,
					   .n_gpus = 1,
					   .process = &s->process,
					   .n_processes = 1};
	s->host.sample = gs_host_sample_unknown;
	s->jobs = (struct gs_job_accounts){.account = &s->account, .n_accounts = 1};
	s->node = (struct gs_node_snapshot){.wall_ns = 1700000000123456789,
					    .gpu = &s->gpus,
					    .host = &s->host,
					    .jobs = &s->jobs};
	return s;
}

static void rows_fit_their_columns(void **state)
{
	static const struct {
		unsigned tables, n;
	} cases[] = {{GS_MYSQL_TABLES_OWN, 5},
		     {GS_MYSQL_TABLES_EACGM, 5},
		     {GS_MYSQL_TABLES_OWN | GS_MYSQL_TABLES_EACGM, 10}};
	struct sample *s = make_sample();

	for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
		GS_CLEANUP(gs_buf_fini) struct gs_buf buf = GS_BUF_INIT(1 << 20);
		struct gs_wire_out out = {&buf, 0};
		struct gs_wire_in in;
		char node[64];

		mysql_put_sample(&out, cases[i].tables, "n", &s->node, NULL);
		assert_int_equal(out.r, 0);
		in = GS_WIRE_IN(buf.data, buf.bytes);
		assert_int_equal(check_rows(&in, 1, node, sizeof(node)), cases[i].n);
		assert_string_equal(node, "n");
	}
	free(s);
}

static void clients_of_ollama(void **state)
{
	struct gs_traffic_asker askers[] = {{"10.0.0.1", 5}, {"", 2}};
	const struct gs_traffic_growth growth = {.port = 11434,
						 .ns = 2000000000,
						 .requests = 7,
						 .sends = 70,
						 .asker = askers,
						 .n_askers = 2};
	GS_CLEANUP(gs_buf_fini) struct gs_buf buf = GS_BUF_INIT(1 << 20);
	struct gs_wire_out out = {&buf, 0};
	struct sample *s = make_sample();
	struct gs_wire_in in;
	char name[64];

	mysql_put_sample(&out, GS_MYSQL_TABLES_EACGM, "n", &s->node, &growth);
	assert_int_equal(out.r, 0);
	in = GS_WIRE_IN(buf.data, buf.bytes);
	assert_int_equal(check_rows(&in, 0, name, sizeof(name)), 7);
	assert_string_equal(name, "other.11434"); /* of the last table, the last row */
	/* They are not of our own schema. */
	gs_buf_reset(&buf);
	mysql_put_sample(&out, GS_MYSQL_TABLES_OWN, "n", &s->node, &growth);
	in = GS_WIRE_IN(buf.data, buf.bytes);
	assert_int_equal(check_rows(&in, 0, name, sizeof(name)), 5);
	free(s);
}

static void texts_are_cut_at_characters(void **state)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf buf = GS_BUF_INIT(1 << 20);
	struct gs_wire_out out = {&buf, 0};
	struct sample *s = make_sample();
	char name[300], expected[300] = "";
	struct gs_wire_in in;

	/* Two bytes each, the last one cut, and one that is no UTF-8. */
	memset(s->account.job.name, 0xc3, sizeof(s->account.job.name) - 1);
	for (size_t i = 2; i < sizeof(s->account.job.name) - 1; i += 2)
		s->account.job.name[i] = '\xa4';
	s->account.job.name[0] = '\xff';
	snprintf(expected, sizeof(expected), "\xef\xbf\xbd%s", s->account.job.name + 1);
	mysql_put_sample(&out, GS_MYSQL_TABLES_OWN, "n", &s->node, NULL);
	in = GS_WIRE_IN(buf.data, buf.bytes);
	(void)check_rows(&in, 7, name, sizeof(name)); /* jobs are the last table */
	assert_string_equal(name, expected);
	free(s);
}

static void times_are_utc(void **state)
{
	char text[MYSQL_TIME_BYTES];

	assert_string_equal(mysql_format_time(1700000000123456789, false, text),
			    "2023-11-14 22:13:20.123");
	assert_string_equal(mysql_format_time(1700000000123456789, true, text),
			    "2023-11-14 22:13:20");
}

static void servers_as_written(void **state)
{
	static const struct {
		const char *text, *host, *socket;
		uint16_t port;
	} good[] = {{"db", "db", "", 3306},
		    {"db.example:3307", "db.example", "", 3307},
		    {"[::1]:3306", "::1", "", 3306},
		    {"unix:/run/mysqld/mysqld.sock", "", "/run/mysqld/mysqld.sock", 3306}};
	static const char *const bad[] = {"",      "a b",      "db:",  "db:0", "db:65536",
					  "db:1x", "unix:rel", "u@db", ":1",   "/run/x"};
	char host[256], socket[256];
	uint16_t port;

	for (size_t i = 0; i < GS_ARRAY_LEN(good); i++) {
		assert_true(mysql_split_server(good[i].text, host, socket, &port));
		assert_string_equal(host, good[i].host);
		assert_string_equal(socket, good[i].socket);
		assert_int_equal(port, good[i].port);
	}
	for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++)
		assert_false(mysql_split_server(bad[i], host, socket, &port));
}

static void schemas_are_whole(void **state)
{
	for (int i = 0; gs_mysql_schema_names[i]; i++) {
		GS_CLEANUP(gs_buf_fini) struct gs_buf text = GS_BUF_INIT(1 << 20);

		assert_int_equal(gs_mysql_print_schema(gs_mysql_schema_names[i], &text), 0);
		assert_int_equal(gs_buf_put(&text, "", 1), 0);
		assert_int_equal(count_of((const char *)text.data, '('),
				 count_of((const char *)text.data, ')'));
		for (size_t k = 0; k < MYSQL_TABLES; k++) {
			char create[64];

			snprintf(create, sizeof(create), "EXISTS `%s` (", mysql_tables[k].name);
			assert_int_equal(!!strstr((const char *)text.data, create),
					 !!(mysql_schema_tables(i) & mysql_tables[k].schemas));
		}
	}
	assert_int_equal(gs_mysql_print_schema("x", NULL), -EINVAL);
}

static void numbers_are_libmariadbs(void **state)
{
#ifdef GS_HAVE_MYSQL_H
#define SAME(name, value) assert_int_equal(GS_##name, name);
	GS_MYSQL_NUMBERS(SAME)
#undef SAME
#define SAME_PLACE(ours, theirs)                                                                   \
	assert_int_equal(offsetof(struct gs_mysql_bind, ours), offsetof(MYSQL_BIND, theirs))
	assert_int_equal(sizeof(struct gs_mysql_bind), sizeof(MYSQL_BIND));
	SAME_PLACE(length, length);
	SAME_PLACE(is_null, is_null);
	SAME_PLACE(buffer, buffer);
	SAME_PLACE(error, error);
	SAME_PLACE(buffer_length, buffer_length);
	SAME_PLACE(buffer_type, buffer_type);
	SAME_PLACE(is_unsigned, is_unsigned);
#undef SAME_PLACE
#else
	print_message("SKIP: mariadb/mysql.h is not installed (libmariadb-dev)\n");
	skip();
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_fit_their_columns),      cmocka_unit_test(clients_of_ollama),
		cmocka_unit_test(texts_are_cut_at_characters), cmocka_unit_test(times_are_utc),
		cmocka_unit_test(servers_as_written),          cmocka_unit_test(schemas_are_whole),
		cmocka_unit_test(numbers_are_libmariadbs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
