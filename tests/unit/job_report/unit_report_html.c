/* A report as HTML: everything is in it, and nothing of it is markup that a job chose. How a browser
 * draws it: tests/e2e/job.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "analysis/job_report/report.h"

#define S 1000000000ull
/* Ends whatever it stands in: an element, an attribute, a style, a comment. */
#define HOSTILE_START "</td><script>"
#define HOSTILE                                                                                    \
	HOSTILE_START "alert(1)</script>\"'><img src=x "                                           \
		      "onerror=alert(2)>&lt;-->\x1b[31m\xe2\x80\xae"

static void hostile(char *out, size_t bytes, const char *lead)
{
	snprintf(out, bytes, "%s%s", lead, HOSTILE);
}

struct page {
	struct gs_job_report job[2];
	struct gs_job_report_call calls[2];
	struct gs_job_report_rank ranks[4];
	struct gs_taskstats_mount_row mount;
	struct gs_taskstats_disk_row disk;
	struct gs_taskstats_peer_row peer;
	struct gs_job_report_session s;
};

static void fill_job(struct page *p)
{
	struct gs_job_report *job = &p->job[0];
	struct gs_verdict *v = &job->verdict;

	job->usage = (struct gs_job_usage){.elapsed_ns = 10 * S,
					   .cores = 4,
					   .known = (1u << GS_JOB_KNOWS_COUNT) - 1,
					   .io_rows = true,
					   .gpu_mask = 0x5,
					   .gpu_idle_mask = 0x4};
	job->usage.work.time_ns[GS_TIME_CPU] = 5 * S;
	job->usage.work.time_ns[GS_TIME_LOCK] = 5 * S;
	job->usage.work.idle_ns = 4 * S;
	hostile(job->job.id, sizeof(job->job.id), "47");
	hostile(job->job.name, sizeof(job->job.name), "name");
	hostile(job->job.user, sizeof(job->job.user), "me");
	hostile(job->job.account, sizeof(job->job.account), "a");
	hostile(job->job.partition, sizeof(job->job.partition), "p");
	hostile(job->job.cluster, sizeof(job->job.cluster), "c");
	hostile(job->job.nodes, sizeof(job->job.nodes), "n");
	for (unsigned i = 0; i < GS_FIGURE_COUNT; i++)
		job->figures.v[i] = i;
	hostile(v->job_class, sizeof(v->job_class), "k");
	v->confidence = .75;
	v->score = 42.5;
	v->n_evidence = v->n_advice = 1;
	hostile(v->evidence[0], sizeof(v->evidence[0]), "e");
	v->n_parts = 2;
	v->part[0] = (struct gs_verdict_part){"processors", 50, 100, "half of them"};
	v->part[1] = (struct gs_verdict_part){"locks", -7.5, -10, "waits"};
	hostile(v->advice[0].fact, sizeof(v->advice[0].fact), "fact");
	hostile(v->advice[0].cause, sizeof(v->advice[0].cause), "cause");
	hostile(v->advice[0].next, sizeof(v->advice[0].next), "next");
	hostile(v->advice[0].benefit, sizeof(v->advice[0].benefit), "benefit");
}

static void fill(struct page *p)
{
	memset(p, 0, sizeof(*p));
	fill_job(p);
	p->calls[0] = (struct gs_job_report_call){
		"read", 1250, 3, 5000000, 40000, 1250, .hist = {[12] = 1000, [15] = 250}};
	hostile(p->calls[1].name, sizeof(p->calls[1].name), "x");
	p->job[0].calls = p->calls;
	p->job[0].n_calls = 2;
	for (int i = 0; i < 4; i++) {
		p->ranks[i] = (struct gs_job_report_rank){.rank = i,
							  .cpu_s = i == 2 ? 4 : 1,
							  .wait_s = 1,
							  .gpu_wait_s = NAN,
							  .gpu_ratio = NAN,
							  .gpu_memory_bytes = -1,
							  .file_bytes = 2048,
							  .net_bytes = NAN};
		hostile(p->ranks[i].step, sizeof(p->ranks[i].step), "s");
	}
	p->job[0].ranks = p->ranks;
	p->job[0].n_ranks = 4;
	p->job[0].imbalance.ratio = 2;
	p->job[0].imbalance.rank = 2;
	hostile(p->job[0].imbalance.evidence, sizeof(p->job[0].imbalance.evidence), "rank 2");
	hostile(p->mount.path, sizeof(p->mount.path), "/mnt");
	hostile(p->mount.type, sizeof(p->mount.type), "t");
	p->mount.io = (struct gs_taskstats_io_count){.reads = 7, .read_bytes = 3 << 20};
	hostile(p->disk.name, sizeof(p->disk.name), "d");
	p->disk.disk.reads = 5;
	p->disk.disk.hist[20] = 5;
	p->peer.family = AF_INET;
	inet_pton(AF_INET, "10.1.2.3", p->peer.addr);
	p->peer.port = 443;
	p->peer.peer.sent_bytes = 1 << 20;
	p->job[0].tables = (struct gs_taskstats_tables){.mounts = &p->mount,
							.n_mounts = 1,
							.disks = &p->disk,
							.n_disks = 1,
							.peers = &p->peer,
							.n_peers = 1};
	/* One of which nothing is known. */
	p->job[1].verdict.score = p->job[1].verdict.confidence = NAN;
	p->job[1].imbalance.ratio = NAN;
	for (unsigned i = 0; i < GS_FIGURE_COUNT; i++)
		p->job[1].figures.v[i] = NAN;
	for (unsigned i = 0; i < GS_STALL_COUNT; i++)
		p->job[0].usage.pressure_ratio[i] = p->job[1].usage.pressure_ratio[i] = NAN;
	p->s = (struct gs_job_report_session){.elapsed_ns = 10 * S,
					      .jobs = p->job,
					      .n_jobs = 2,
					      .failed_reads = 3,
					      .open_bytes = 4096};
	hostile(p->s.host, sizeof(p->s.host), "host");
	hostile(p->s.kernel, sizeof(p->s.kernel), "kernel");
	hostile(p->s.source[0], sizeof(p->s.source[0]), "source");
	hostile(p->s.loss, sizeof(p->s.loss), "loss");
}

static char *written(const struct page *p, enum gs_job_report_format format)
{
	struct gs_job_report_style style = {
		.format = format, .syscalls = true, .advice = true, .precision = -1};
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	assert_int_equal(gs_job_report_write(out, &p->s, &style), 0);
	fclose(out);
	assert_int_equal(strlen(text), bytes);
	return text;
}

/* The page is the JSON in a text that is the same for every report. */
static void what_a_page_holds(void **state)
{
	static const char before[] = "id=\"report\">\n", after[] = "</script>";
	char *page, *json, *from, *to;
	json_t *held, *wanted;
	struct page p;

	fill(&p);
	page = written(&p, GS_JOB_HTML);
	json = written(&p, GS_JOB_JSON);
	assert_non_null(strstr(json, HOSTILE_START));
	from = strstr(page, before);
	assert_non_null(from);
	from += strlen(before);
	to = strstr(from, after);
	assert_non_null(to);
	held = json_loadb(from, (size_t)(to - from), 0, NULL);
	wanted = json_loads(json, 0, NULL);
	assert_non_null(held);
	assert_true(json_equal(held, wanted));
	json_decref(held);
	json_decref(wanted);

	*to = '\0';
	assert_null(strchr(from, '<'));
	memset(&p, 0, sizeof(p));
	free(json);
	json = written(&p, GS_JOB_HTML); /* of no job */
	assert_memory_equal(page, json, (size_t)(from - page));
	assert_string_equal(to + 1, strstr(strstr(json, before), after) + 1);
	assert_non_null(strstr(page, "default-src 'none'"));
	free(json);
	free(page);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(what_a_page_holds)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
