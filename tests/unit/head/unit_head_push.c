/* What a head pushes of its nodes: every GPU once, in parts, with its own time; and its
 * configuration, as far as no file is needed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "server/head/head_conf.h"
#include "server/head/head_push.h"

#define S       1000000000ll
#define N_NODES 1250
#define N_GPUS  8

static struct gs_node_snapshot *moment(int64_t wall_ns)
{
	struct gs_node_snapshot *m = calloc(1, sizeof(*m));

	m->time_ns = 100 * S;
	m->wall_ns = wall_ns;
	m->host = calloc(1, sizeof(*m->host));
	m->host->sample =
		(struct gs_host_sample){.cpu_ratio = 0.25, .load1 = -1, .mem_total_bytes = -1};
	m->gpu = calloc(1, sizeof(*m->gpu));
	m->gpu->time_ns = m->time_ns;
	m->gpu->wall_ns = wall_ns;
	m->gpu->n_gpus = N_GPUS;
	m->gpu->info = calloc(N_GPUS, sizeof(*m->gpu->info));
	m->gpu->sample = calloc(N_GPUS, sizeof(*m->gpu->sample));
	for (uint32_t i = 0; i < N_GPUS; i++) {
		struct gs_gpu_sample *s = &m->gpu->sample[i];

		m->gpu->info[i].index = i;
		snprintf(m->gpu->info[i].uuid, sizeof(m->gpu->info[i].uuid), "GPU-%u", i);
		s->time_ns = m->time_ns;
		memset(s->why, GS_GPU_REASON_NOT_READ, sizeof(s->why));
		for (unsigned f = 0; f < 40; f++)
			gs_gpu_set(s, f, 0.5 + i);
	}
	return m;
}

static struct gs_registry *cluster(unsigned n_nodes, int64_t wall_ns)
{
	struct gs_registry *c = gs_registry_new();

	for (unsigned i = 1; i <= n_nodes; i++) {
		struct gs_registry_node n = {.id = i};
		struct gs_node_snapshot *m = moment(wall_ns);

		snprintf(n.machine_id, sizeof(n.machine_id), "m%u", i);
		snprintf(n.hostname, sizeof(n.hostname), "host%u", i);
		strcpy(n.instance, i % 2 ? "default" : "second");
		assert_int_equal(gs_registry_put(c, &n), 0);
		gs_registry_connected(c, i, "127.0.0.1:1", "x");
		gs_registry_apply(c, i, &m);
	}
	return c;
}

struct told {
	unsigned n_parts, n_lines, n_util, n_up;
	size_t most_bytes;
	char last_util[512];
};

static struct told render(struct gs_head_pusher *p, struct gs_registry *c)
{
	struct gs_buf out = GS_BUF_INIT(64 << 20);
	struct told t = {0};
	int r;

	do {
		struct gs_metrics text_of;
		char *save, *text;

		gs_buf_reset(&out);
		gs_metrics_init(&text_of, &out, true);
		r = gs_head_push_render(p, c, t.n_parts++, &text_of);
		assert_true(r == 0 || r == GS_PUSH_MORE);
		assert_int_equal(gs_metrics_end(&text_of), 0);
		t.most_bytes = out.bytes > t.most_bytes ? out.bytes : t.most_bytes;
		assert_int_equal(gs_buf_put(&out, "", 1), 0);
		text = (char *)out.data;
		for (char *l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
			if (l[0] == '#')
				continue;
			t.n_lines++;
			t.n_up += strncmp(l, "gpuscope_node_up{", 17) == 0;
			if (strncmp(l, "gpuscope_gpu_utilization_ratio{", 31) == 0) {
				t.n_util++;
				snprintf(t.last_util, sizeof(t.last_util), "%s", l);
			}
		}
	} while (r == GS_PUSH_MORE);
	gs_buf_fini(&out);
	return t;
}

static void ten_thousand(void **state)
{
	int64_t now = (int64_t)gs_clock_wall_ns();
	struct gs_registry *c = cluster(N_NODES, now);
	struct gs_head_pusher *p = gs_head_pusher_new();
	char wanted[256];
	struct told t = render(p, c);

	assert_int_equal(t.n_util, N_NODES * N_GPUS);
	assert_int_equal(t.n_up, N_NODES);
	/* In requests that every engine takes; memory does not grow with the cluster. */
	assert_true(t.n_parts > 10);
	assert_true(t.most_bytes < 4 << 20);
	print_message("# %u lines in %u parts\n", t.n_lines, t.n_parts);
	snprintf(wanted, sizeof(wanted),
		 "gpuscope_gpu_utilization_ratio{instance=\"host%u/"
		 "second\",node=\"host%u\",gpu=\"7\","
		 "uuid=\"GPU-7\"} 7.5 %lld.%03lld",
		 N_NODES, N_NODES, (long long)(now / S), (long long)(now / 1000000 % 1000));
	assert_string_equal(t.last_util, wanted);
	/* Nothing new: nobody is told the same again, but who is up is. */
	t = render(p, c);
	assert_int_equal(t.n_util, 0);
	assert_int_equal(t.n_up, N_NODES);
	/* One has something new; its clock is off by a minute, which is known. */
	{
		struct gs_node_snapshot *m = moment(now + S);

		gs_registry_apply(c, 7, &m);
		gs_registry_clock(c, 7, -60 * S, 1000);
		t = render(p, c);
		/* Now it is older than what was sent before: that would be refused. */
		assert_int_equal(t.n_util, 0);
		m = moment(now + 62 * S);
		gs_registry_apply(c, 7, &m);
		t = render(p, c);
		assert_int_equal(t.n_util, N_GPUS);
		snprintf(wanted, sizeof(wanted), "} 7.5 %lld.%03lld", (long long)(now / S + 2),
			 (long long)(now / 1000000 % 1000));
		assert_non_null(strstr(t.last_util, wanted));
	}
	gs_head_pusher_free(&p);
	gs_registry_free(&c);
}

/* A node that catches up after a night: in the store, not in the engine. */
static void old_moments(void **state)
{
	struct gs_registry *c = cluster(3, (int64_t)gs_clock_wall_ns() - 3600 * S);
	struct gs_head_pusher *p = gs_head_pusher_new();
	struct told t = render(p, c);

	assert_int_equal(t.n_util, 0);
	assert_int_equal(t.n_up, 3);
	assert_int_equal(t.n_parts, 1);
	gs_head_pusher_free(&p);
	gs_registry_free(&c);
}

static void configuration(void **state)
{
	static const char text[] = "store:\n"
				   "  retention: 90d\n"
				   "  retention_bytes: 1G\n"
				   "  downsample:\n"
				   "    - {after: 1d, interval: 10s}\n"
				   "    - {after: 1.5d, interval: 1m}\n";
	struct gs_head_conf a, b;
	struct gs_head_retention retention;
	struct gs_err err;
	char names[256];

	if (gs_conf_parse(&gs_head_conf_schema, "x", text, strlen(text), &a, NULL, &err) < 0)
		fail_msg("%s", err.text);
	gs_head_conf_retention(&a, &retention);
	assert_int_equal(retention.max_age_ns, 90ull * 86400 * S);
	assert_int_equal(retention.max_bytes, 1 << 30);
	assert_int_equal(retention.n_levels, 2);
	assert_int_equal(retention.level[0].after_ns, 86400ull * S);
	assert_int_equal(retention.level[1].after_ns, 129600ull * S);
	assert_int_equal(retention.level[1].interval_ns, 60ull * S);
	assert_false(retention.coarse_sessions);
	/* Options over it, through the same tables. */
	{
		const struct gs_head_override good[] = {{"retention", "store.retention", "forever"},
							{"listen", "nodes.listen", "[::1]:1,h:2"}};
		const struct gs_head_override bad[] = {{"tls-cert", "nodes.tls_cert", "c.pem"}};

		assert_int_equal(gs_head_conf_read(NULL, good, 2, &b, NULL, &err), 0);
		gs_head_conf_retention(&b, &retention);
		assert_int_equal(retention.max_age_ns, 0);
		assert_string_equal(b.nodes.listen, "[::1]:1,h:2");
		assert_int_equal(gs_head_conf_read(NULL, bad, 1, &b, NULL, &err), -EINVAL);
		assert_string_equal(err.text, "nodes.tls_cert: tls_cert and tls_key go together");
	}
	gs_conf_defaults(&gs_head_conf_schema, &a);
	b = a;
	gs_head_conf_fixed(&a, &b, names, sizeof(names));
	assert_string_equal(names, "");
	strcpy(b.nodes.listen, "x:1");
	b.nodes.allow_exit = true;
	b.sampling.bandwidth = true;
	gs_head_conf_fixed(&a, &b, names, sizeof(names));
	assert_string_equal(names, "nodes.listen, nodes.allow_exit");
	assert_string_equal(b.nodes.listen, a.nodes.listen);
	assert_true(b.sampling.bandwidth);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ten_thousand),
		cmocka_unit_test(old_moments),
		cmocka_unit_test(configuration),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
