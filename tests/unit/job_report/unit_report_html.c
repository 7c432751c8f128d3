/* A report as HTML: everything is in it, and nothing of it is markup that a job chose. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "analysis/job_report/report.h"

#define S 1000000000ull
/* Ends whatever it stands in: an element, an attribute, a style, a comment. */
#define HOSTILE                                                                                    \
	"</td><script>alert(1)</script>\"'><img src=x "                                            \
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

static char *written(const struct page *p, bool calls, bool advice)
{
	struct gs_job_report_style style = {
		.format = GS_JOB_HTML, .syscalls = calls, .advice = advice, .precision = -1};
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	assert_int_equal(gs_job_report_write(out, &p->s, &style), 0);
	fclose(out);
	assert_int_equal(strlen(text), bytes);
	return text;
}

/* Elements that a page may have; and each that is opened is closed, in order. */
static void is_well_formed(const char *text)
{
	static const char *const known[] = {
		"html",  "head",    "title",  "style",   "body",    "main", "h1",       "h2",
		"h3",    "section", "footer", "div",     "span",    "i",    "b",        "bdi",
		"table", "tr",      "th",     "td",      "ul",      "li",   "dl",       "dt",
		"dd",    "p",       "a",      "details", "summary", "meta", "!DOCTYPE", NULL};
	char stack[64][16];
	size_t n = 0;

	for (const char *c = strchr(text, '<'); c; c = strchr(c, '<')) {
		bool closes = c[1] == '/';
		char name[16] = "", quote = 0;
		size_t k = 0;
		const char *const *w = known;

		for (c += 1 + closes; isalnum((unsigned char)*c) || *c == '!'; c++)
			if (k + 1 < sizeof(name))
				name[k++] = *c;
		while (*w && strcmp(*w, name) != 0)
			w++;
		if (!*w)
			fail_msg("an element <%s> at %.60s", name, c);
		for (; *c && (quote || *c != '>'); c++)
			if (*c == quote)
				quote = 0;
			else if (!quote && (*c == '"' || *c == '\''))
				quote = *c;
		assert_int_equal(*c, '>');
		if (strcmp(name, "meta") == 0 || name[0] == '!')
			continue;
		if (!closes) {
			assert_true(n < 64);
			strcpy(stack[n++], name);
		} else if (!n || strcmp(stack[--n], name) != 0) {
			fail_msg("</%s> closes <%s> at %.80s", name, stack[n], c);
		}
	}
	assert_int_equal(n, 0);
}

static void nothing_of_a_job_is_markup(void **state)
{
	struct page p;
	char *text;

	fill(&p);
	text = written(&p, true, true);
	is_well_formed(text);
	assert_null(strstr(text, "<script"));
	assert_null(strstr(text, "<img"));
	assert_null(strchr(text, '\x1b'));
	assert_null(strstr(text, "\xe2\x80\xae")); /* a text that runs backwards */
	assert_null(strstr(text, "http:"));
	assert_null(strstr(text, "https:"));
	assert_non_null(strstr(text, "default-src 'none'"));
	/* Each of them is there, as text. */
	for (const char *const *w =
		     (const char *const[]){"47", "name", "/mnt", "fact", "cause", "next", "benefit",
					   "host", "kernel", "source", "loss", "rank 2", NULL};
	     *w; w++) {
		char wanted[64];

		snprintf(wanted, sizeof(wanted), "%s&lt;/td&gt;&lt;script", *w);
		if (!strstr(text, wanted))
			fail_msg("no %s", wanted);
	}
	free(text);
}

static void what_it_shows(void **state)
{
	static const char *const wanted[] = {
		"42.5 <span class=dim>of 100",
		"confidence 0.75",
		"<td class=n>-7.5</td><td class=n>-10</td>",
		"class=neg style=\"width:75%\"",                 /* of a part that is taken away */
		"class=c0 title=\"on CPU\" style=\"width:50%\"", /* of 10 s */
		"class=c4 title=\"locks\" style=\"width:10%\"",  /* what is idle is not counted */
		"class=c9 title=\"idle threads\" style=\"width:40%\"",
		"10.1.2.3:443",
		"3.00 MiB",
		"<tr><td>2</td><td><span class=bad>never</span>",
		"<tr><td>0</td><td>yes",
		"<tr class=s><td class=n>2</td>",
		"aria-label=\"histogram from 4.10 us to 65.5 us\"",
		"<a href=\"#job1\">",
		"<section id=job1",
		"3 files of /proc could not be read",
		"Not known, or no time was spent.",
	};
	struct page p;
	char *text;

	fill(&p);
	text = written(&p, true, true);
	for (size_t i = 0; i < GS_ARRAY_LEN(wanted); i++)
		if (!strstr(text, wanted[i]))
			fail_msg("no %s in %s", wanted[i], text);
	free(text);
	text = written(&p, false, false);
	is_well_formed(text);
	assert_null(strstr(text, "System calls"));
	assert_null(strstr(text, "Advice"));
	free(text);
}

/* Many rows: the first ones, and how many more there are. */
static void long_tables_end(void **state)
{
	struct gs_taskstats_peer_row *many = calloc(1200, sizeof(*many));
	struct page p;
	char *text;
	size_t n = 0;

	assert_non_null(many);
	fill(&p);
	for (unsigned i = 0; i < 1200; i++) {
		many[i] = p.peer;
		many[i].port = (uint16_t)(1000 + i);
	}
	p.job[0].tables.peers = many;
	p.job[0].tables.n_peers = 1200;
	text = written(&p, true, true);
	is_well_formed(text);
	for (const char *c = text; (c = strstr(c, "<bdi>10.1.2.3:")); c++)
		n++;
	assert_int_equal(n, 500);
	assert_non_null(strstr(text, "and 700 more"));
	free(text);
	free(many);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_of_a_job_is_markup),
		cmocka_unit_test(what_it_shows),
		cmocka_unit_test(long_tables_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
