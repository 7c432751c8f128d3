/* Rows as peers: growth, processes that end and come again, names, and what is given up. */
#include "sources/traffic/table.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#define S 1000000000ull

static struct gs_traffic_found row_of(uint32_t pid, const char *comm, uint16_t port,
				      const char *peer, uint64_t requests, int64_t open)
{
	struct gs_traffic_found f = {.key = {.pid = pid, .port = port, .accepted = 1}};

	if (peer) {
		f.key.family = strchr(peer, ':') ? 6 : 4;
		assert_int_equal(
			inet_pton(f.key.family == 6 ? AF_INET6 : AF_INET, peer, f.key.peer), 1);
	}
	memcpy(f.row.comm, comm, strlen(comm));
	f.row.requests = requests;
	f.row.received_bytes = 10 * requests;
	f.row.answers = requests;
	f.row.answer_log2[3] = requests;
	f.row.connections = 1;
	f.row.open = open;
	return f;
}

static struct gs_traffic_table *new_table(uint32_t max_peers, uint32_t max_named)
{
	const struct gs_traffic_table_options o = {.size = sizeof(o),
						   .max_peers = max_peers,
						   .max_named = max_named,
						   .linger_ns = 10 * S};
	struct gs_traffic_table *t;

	assert_int_equal(gs_traffic_table_new(&o, 90 * S, &t), 0);
	return t;
}

static struct gs_traffic_list copy(const struct gs_traffic_table *t)
{
	struct gs_traffic_list l;

	assert_int_equal(gs_traffic_table_copy(t, &l), 0);
	return l;
}

static void processes_of_one_name(void **state)
{
	struct gs_traffic_table *t = new_table(0, 10);
	struct gs_traffic_found f[3] = {row_of(7, "web", 80, "10.0.0.1", 5, 1),
					row_of(8, "web", 80, "10.0.0.1", 2, 1),
					row_of(8, "web", 80, "::1", 1, 0)};
	struct gs_traffic_list l;

	assert_int_equal(gs_traffic_table_take(t, f, 3, 100 * S), 0);
	/* The same again is no growth. */
	assert_int_equal(gs_traffic_table_take(t, f, 3, 101 * S), 0);
	l = copy(t);
	assert_int_equal(l.n_peers, 2);
	assert_string_equal(l.peer[0].address, "10.0.0.1");
	assert_string_equal(l.peer[0].application, "web");
	assert_int_equal(l.peer[0].sums.requests, 7);
	assert_int_equal(l.peer[0].sums.open, 2);
	assert_int_equal(l.peer[0].named.requests, 7);
	assert_string_equal(l.peer[1].address, "::1");
	assert_int_equal(l.n_services, 2);
	assert_int_equal(l.service[1].sums.requests, 8);
	assert_int_equal(l.service[1].unnamed.requests, 0);
	gs_traffic_list_fini(&l);
	gs_traffic_table_free(&t);
}

static void rows_that_leave(void **state)
{
	struct gs_traffic_table *t = new_table(0, 10);
	struct gs_traffic_found f = row_of(7, "web", 80, "10.0.0.1", 5, 0);
	const struct gs_traffic_key *key;
	struct gs_traffic_list l;

	f.row.used_ns = 100 * S;
	assert_int_equal(gs_traffic_table_take(t, &f, 1, 105 * S), 0);
	assert_null(gs_traffic_table_next_idle(t, 105 * S));
	f.row.open = 1;
	assert_int_equal(gs_traffic_table_take(t, &f, 1, 120 * S), 0);
	assert_null(gs_traffic_table_next_idle(t, 120 * S));
	f.row.open = 0;
	assert_int_equal(gs_traffic_table_take(t, &f, 1, 121 * S), 0);
	key = gs_traffic_table_next_idle(t, 121 * S);
	assert_non_null(key);
	assert_null(gs_traffic_table_next_idle(t, 121 * S));
	/* One more came between the reading and the taking. */
	f.row.requests = 6;
	gs_traffic_table_end(t, key, &f.row);
	/* And the row comes again, from zero. */
	f = row_of(7, "web", 80, "10.0.0.1", 1, 0);
	assert_int_equal(gs_traffic_table_take(t, &f, 1, 122 * S), 0);
	l = copy(t);
	assert_int_equal(l.n_peers, 1);
	assert_int_equal(l.peer[0].sums.requests, 7);
	assert_int_equal(l.peer[0].sums.connections, 2);
	gs_traffic_list_fini(&l);
	gs_traffic_table_free(&t);
}

static void names_and_others(void **state)
{
	struct gs_traffic_table *t = new_table(4, 2);
	struct gs_traffic_found f[6];
	const char *peer[] = {"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", NULL};
	struct gs_traffic_list l;
	unsigned n_named = 0;
	uint64_t named = 0;

	for (int i = 0; i < 6; i++)
		f[i] = row_of(7, "web", 80, peer[i], (uint64_t)i + 1, 0);
	assert_int_equal(gs_traffic_table_take(t, f, 6, 100 * S), 0);
	l = copy(t);
	assert_int_equal(l.n_peers, 4);
	assert_int_equal(l.evicted_peers, 2);
	for (size_t i = 0; i < l.n_peers; i++)
		if (l.peer[i].is_named) {
			n_named++;
			named += l.peer[i].named.requests;
			assert_string_not_equal(l.peer[i].address, "");
		}
	assert_int_equal(n_named, 2);
	/* Nothing is lost, whoever was given up. */
	assert_int_equal(l.service[1].sums.requests, 21);
	assert_int_equal(l.service[1].unnamed.requests + named, 21);
	gs_traffic_list_fini(&l);
	/* When the named ones were silent for long, another one gets a name: from then on. */
	for (int i = 0; i < 6; i++)
		f[i] = row_of(7, "web", 80, peer[i], (uint64_t)i + 1, 0);
	for (int i = 0; i < 6; i++)
		if (f[i].key.peer[3] == 5)
			f[i].row.requests += 100;
	assert_int_equal(gs_traffic_table_take(t, f, 6, 2000 * S), 0);
	l = copy(t);
	assert_string_equal(l.peer[0].address, "10.0.0.5");
	assert_true(l.peer[0].is_named);
	assert_int_equal(l.peer[0].named.requests, 100);
	assert_int_equal(l.service[1].sums.requests, 121);
	gs_traffic_list_fini(&l);
	gs_traffic_table_free(&t);
}

static void growth_of_a_port(void **state)
{
	struct gs_traffic_table *t = new_table(0, 10);
	struct gs_traffic_found f[3] = {row_of(7, "ollama", 11434, "10.0.0.1", 5, 0),
					row_of(7, "ollama", 11434, "10.0.0.2", 2, 0),
					row_of(7, "web", 80, "10.0.0.1", 9, 0)};
	struct gs_traffic_growth g;

	f[0].row.sends = 50;
	assert_int_equal(gs_traffic_table_take(t, f, 3, 100 * S), 0);
	assert_int_equal(gs_traffic_table_grown(t, 11434, 1, 100 * S, &g), 0);
	assert_int_equal(g.ns, 10 * S);
	assert_int_equal(g.requests, 7);
	assert_int_equal(g.sends, 50);
	assert_int_equal(g.n_askers, 2);
	assert_string_equal(g.asker[0].address, "10.0.0.1");
	assert_int_equal(g.asker[0].requests, 5);
	/* There was no room for the second. */
	assert_string_equal(g.asker[1].address, "");
	assert_int_equal(g.asker[1].requests, 2);
	gs_traffic_growth_fini(&g);
	f[0] = row_of(7, "ollama", 11434, "10.0.0.2", 3, 0);
	assert_int_equal(gs_traffic_table_take(t, f, 1, 103 * S), 0);
	assert_int_equal(gs_traffic_table_grown(t, 11434, 1, 103 * S, &g), 0);
	assert_int_equal(g.ns, 3 * S);
	assert_int_equal(g.requests, 1);
	assert_int_equal(g.n_askers, 1);
	assert_string_equal(g.asker[0].address, "10.0.0.2");
	gs_traffic_growth_fini(&g);
	gs_traffic_table_free(&t);
}

static void too_many_ports(void **state)
{
	struct gs_traffic_table *t = new_table(0, 1000);
	struct gs_traffic_found f[200];
	struct gs_traffic_list l;
	uint64_t sum = 0;

	for (int i = 0; i < 200; i++)
		f[i] = row_of(7, "p2p", (uint16_t)(1000 + i), "10.0.0.1", 1, 0);
	assert_int_equal(gs_traffic_table_take(t, f, 200, 100 * S), 0);
	l = copy(t);
	assert_int_equal(l.n_services, 64);
	for (size_t i = 0; i < l.n_services; i++)
		sum += l.service[i].sums.requests;
	assert_int_equal(sum, 200);
	assert_int_equal(l.service[0].sums.requests, 200 - 63);
	assert_int_equal(l.service[0].port, 0);
	gs_traffic_list_fini(&l);
	gs_traffic_table_free(&t);
}

static void quantiles(void **state)
{
	struct gs_traffic_sums s = {0};

	assert_true(isnan(gs_traffic_quantile(&s, 0.5)));
	s.answer_log2[0] = 1; /* under 1 us */
	s.answer_log2[10] = 98;
	s.answer_log2[20] = 1;
	assert_true(fabs(gs_traffic_quantile(&s, 0.01) - 1e-6) < 1e-12);
	assert_true(fabs(gs_traffic_quantile(&s, 0.5) - 1024e-6) < 1e-9);
	assert_true(fabs(gs_traffic_quantile(&s, 0.99) - 1024e-6) < 1e-9);
	assert_true(fabs(gs_traffic_quantile(&s, 1) - 1.048576) < 1e-9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(processes_of_one_name), cmocka_unit_test(rows_that_leave),
		cmocka_unit_test(names_and_others),      cmocka_unit_test(too_many_ports),
		cmocka_unit_test(growth_of_a_port),      cmocka_unit_test(quantiles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
