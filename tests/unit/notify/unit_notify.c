/* Messages as text, the log and its turning over, queues whose receiver is not there, and libcurl's
 * numbers against its header. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <sys/stat.h>
#ifdef GS_HAVE_CURL_H
#include <curl/curl.h>
#endif

#include "core/base/mem.h"
#include "core/base/secret.h"
#include "net/http_client/curl_abi.h"
#include "net/http_client/http_client.h"
#include "output/notify/notify_int.h"
#include "core/sender/sender.h"

static struct gs_alert_message message(void)
{
	return (struct gs_alert_message){
		.event = GS_ALERT_START,
		.severity = GS_ALERT_CRITICAL,
		.kind = GS_ALERT_JOB,
		.rule = "low_efficiency",
		.id = "4711_3",
		/* What users may call a job. */
		.title = "job 4711_3 of ann (\xc3\xa4\"x\\\r\nBcc: evil@x\x1b[2J \xff)",
		.condition = "efficiency_score < 30",
		.text = "efficiency is 12.5",
		.host = "n1",
		.key = "00112233aabbccdd",
		.label = {{"job", "4711_3"}, {"user", "ann"}},
		.n_labels = 2,
		.evidence = {{"efficiency_score", 12.5}, {"cores", NAN}},
		.n_evidence = 2,
		.start_wall_ns = 1700000000123000000,
	};
}

static json_t *load(const struct gs_buf *b)
{
	json_error_t why;
	json_t *doc = json_loadb((char *)b->data, b->bytes, 0, &why);

	if (!doc)
		fail_msg("%s: %.*s", why.text, (int)b->bytes, (char *)b->data);
	return doc;
}

static const char *text_of(json_t *doc, const char *key)
{
	return json_string_value(json_object_get(doc, key));
}

static void json_of_ours(void **state)
{
	struct gs_buf b = GS_BUF_INIT(1 << 16);
	struct gs_alert_message m = message();
	json_t *doc;

	(void)state;
	assert_int_equal(gs_notify_payload_json(&m, &b), 0);
	doc = load(&b);
	assert_string_equal(text_of(doc, "status"), "firing");
	assert_string_equal(text_of(doc, "rule"), "low_efficiency");
	assert_string_equal(text_of(doc, "severity"), "critical");
	assert_string_equal(text_of(doc, "starts_at"), "2023-11-14T22:13:20.123Z");
	assert_true(json_is_null(json_object_get(doc, "ends_at")));
	assert_string_equal(text_of(json_object_get(doc, "labels"), "user"), "ann");
	assert_true(json_real_value(json_object_get(json_object_get(doc, "values"),
						    "efficiency_score")) == 12.5);
	assert_true(json_is_null(json_object_get(json_object_get(doc, "values"), "cores")));
	json_decref(doc);
	gs_buf_reset(&b);
	m.event = GS_ALERT_END;
	m.end_wall_ns = m.start_wall_ns + 1000000000;
	snprintf(m.cause, sizeof(m.cause), "gone");
	assert_int_equal(gs_notify_payload_json(&m, &b), 0);
	doc = load(&b);
	assert_string_equal(text_of(doc, "status"), "resolved");
	assert_string_equal(text_of(doc, "ends_at"), "2023-11-14T22:13:21.123Z");
	assert_string_equal(text_of(doc, "ended_because"), "gone");
	json_decref(doc);
	gs_buf_fini(&b);
}

static void json_of_an_alertmanager(void **state)
{
	struct gs_buf b = GS_BUF_INIT(1 << 16);
	struct gs_alert_message m = message();
	json_t *doc, *one;

	(void)state;
	assert_int_equal(gs_notify_payload_alertmanager(&m, m.start_wall_ns, 60000000000, &b), 0);
	doc = load(&b);
	assert_int_equal(json_array_size(doc), 1);
	one = json_array_get(doc, 0);
	assert_string_equal(text_of(json_object_get(one, "labels"), "alertname"), "low_efficiency");
	assert_string_equal(text_of(json_object_get(one, "labels"), "instance"), "n1");
	assert_string_equal(text_of(json_object_get(one, "labels"), "user"), "ann");
	assert_string_equal(text_of(one, "startsAt"), "2023-11-14T22:13:20.123Z");
	assert_string_equal(text_of(one, "endsAt"), "2023-11-14T22:17:20.123Z");
	json_decref(doc);
	gs_buf_fini(&b);
}

static void mail_has_no_heads_of_others(void **state)
{
	struct gs_buf b = GS_BUF_INIT(1 << 16);
	struct gs_alert_message m = message();
	char *head_end;

	(void)state;
	assert_int_equal(gs_notify_payload_mail(&m, "a@b", "c@d,e@f", m.start_wall_ns, &b), 0);
	assert_int_equal(gs_buf_put(&b, "", 1), 0);
	head_end = strstr((char *)b.data, "\r\n\r\n");
	assert_non_null(head_end);
	assert_null(strcasestr((char *)b.data, "\nbcc:"));
	assert_non_null(strstr((char *)b.data, "\r\nTo: c@d,\r\n e@f\r\n"));
	assert_non_null(strstr((char *)b.data, "Date: Tue, 14 Nov 2023 22:13:20 +0000\r\n"));
	assert_non_null(strstr((char *)b.data, "Subject: =?UTF-8?B?"));
	/* RFC 2047: a line of encoded words has at most 76 characters; RFC 5322: 998 of any. */
	for (char *line = (char *)b.data; *line; line += strcspn(line, "\n") + 1) {
		assert_true(strcspn(line, "\r\n") <= 90);
		if (!strchr(line, '\n'))
			break;
	}
	for (const char *c = (char *)b.data; *c; c++)
		assert_true((unsigned char)*c < 0x7f && (*c >= 0x20 || *c == '\r' || *c == '\n'));
	gs_buf_fini(&b);
}

static void a_line_steers_no_terminal(void **state)
{
	struct gs_buf b = GS_BUF_INIT(1 << 16);
	struct gs_alert_message m = message();

	(void)state;
	assert_int_equal(gs_notify_payload_line(&m, m.start_wall_ns, false, &b), 0);
	assert_int_equal(gs_buf_put(&b, "", 1), 0);
	assert_string_equal((char *)b.data,
			    "2023-11-14T22:13:20.123Z alert firing critical low_efficiency: job "
			    "4711_3 of ann (\xc3\xa4\"x\\\\x0d\\nBcc: evil@x\\x1b[2J "
			    "\xef\xbf\xbd): efficiency is 12.5\n");
	gs_buf_reset(&b);
	assert_int_equal(gs_notify_payload_line(&m, m.start_wall_ns, true, &b), 0);
	assert_memory_equal(b.data, "<3>alert firing", 15);
	gs_buf_fini(&b);
}

static long size_of(const char *folder, const char *name)
{
	char path[300];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return stat(path, &st) == 0 ? (long)st.st_size : -1;
}

static void the_log_is_turned_over(void **state)
{
	struct gs_alert_conf *conf = calloc(1, sizeof(*conf));
	char folder[] = "/tmp/gpuscope_unit_XXXXXX", command[64];
	struct gs_alert_message m = message();
	struct gs_notify_sender s;
	atomic_bool stop = false;
	struct gs_err err = {{0}};
	long n = 0;

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(conf->log.file, sizeof(conf->log.file), "%s/log", folder);
	conf->log.max_mb = 1;
	conf->log.max_files = 2;
	assert_int_equal(gs_notify_logfile_open(conf, &s, &err), 0);
	memset(m.text, 'x', sizeof(m.text) - 1);
	/* Four files' worth. */
	while (n < 6000) {
		assert_int_equal(s.send(s.ctx, &m, &stop, &err), 0);
		n++;
	}
	assert_true(size_of(folder, "log") > 0);
	for (int i = 1; i <= 2; i++) {
		char name[16];

		snprintf(name, sizeof(name), "log.%d", i);
		assert_true(size_of(folder, name) > 900000 && size_of(folder, name) <= 1000000);
	}
	assert_true(size_of(folder, "log") <= 1000000);
	assert_int_equal(size_of(folder, "log.3"), -1);
	/* Somebody else moves it away. */
	snprintf(command, sizeof(command), "mv %s/log %s/moved", folder, folder);
	assert_int_equal(system(command), 0);
	assert_int_equal(s.send(s.ctx, &m, &stop, &err), 0);
	assert_true(size_of(folder, "log") > 0);
	s.free(s.ctx);
	snprintf(command, sizeof(command), "rm -r %s", folder);
	assert_int_equal(system(command), 0);
	snprintf(conf->log.file, sizeof(conf->log.file), "/nowhere/log");
	assert_int_equal(gs_notify_logfile_open(conf, &s, &err), -ENOENT);
	assert_string_equal(err.text,
			    "cannot write the log of alerts /nowhere/log: No such file or "
			    "directory");
	free(conf);
}

static void secrets_of_everybody_are_none(void **state)
{
	char path[] = "/tmp/gpuscope_unit_XXXXXX", secret[16];
	struct gs_err err = {{0}};
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "hush\nsecond\n", 12), 12);
	assert_int_equal(gs_secret_read(path, "the token", secret, sizeof(secret), &err), 0);
	assert_string_equal(secret, "hush");
	assert_int_equal(fchmod(fd, 0644), 0);
	assert_int_equal(gs_secret_read(path, "the token", secret, sizeof(secret), &err), -EPERM);
	assert_int_equal(fchmod(fd, 0600), 0);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(gs_secret_read(path, "the token", secret, sizeof(secret), &err), -EINVAL);
	close(fd);
	unlink(path);
	assert_int_equal(gs_secret_read(path, "the token", secret, sizeof(secret), &err), -ENOENT);
}

/* Nobody listens at port 1: everything waits, what has no room is counted, and closing is quick. */
static void a_queue_is_bounded(void **state)
{
	struct gs_alert_conf *conf = calloc(1, sizeof(*conf));
	struct gs_notify_stats stats[GS_NOTIFY_RECEIVERS_MAX];
	struct gs_alert_message m = message();
	struct gs_notify *n = NULL;
	struct gs_err err = {{0}};

	(void)state;
	gs_conf_defaults(gs_alert_conf_schema(), conf);
	conf->log.enabled = false;
	conf->queue = 4;
	snprintf(conf->webhook.url, sizeof(conf->webhook.url), "http://127.0.0.1:1/");
	if (gs_notify_open(conf, "n1", &n, &err) == -ENOENT) {
		print_message("SKIP: %s\n", err.text);
		free(conf);
		skip();
	}
	for (int i = 0; i < 10; i++)
		gs_notify_push(n, &m);
	assert_int_equal(gs_notify_stats(n, stats), 1);
	assert_string_equal(stats[0].name, "webhook");
	assert_int_equal(stats[0].dropped_full, 6);
	assert_int_equal(stats[0].waiting, 4);
	gs_notify_close(&n, 1000000);
	assert_null(n);
	free(conf);
}

static void numbers_are_libcurls(void **state)
{
	(void)state;
#ifdef GS_HAVE_CURL_H
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#define SAME(name, value) assert_int_equal(GS_##name, (long)name);
	GS_CURL_NUMBERS(SAME)
#pragma GCC diagnostic pop
#else
	print_message("SKIP: curl/curl.h is not installed (libcurl4-openssl-dev)\n");
	skip();
#endif
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(json_of_ours),
		cmocka_unit_test(json_of_an_alertmanager),
		cmocka_unit_test(mail_has_no_heads_of_others),
		cmocka_unit_test(a_line_steers_no_terminal),
		cmocka_unit_test(the_log_is_turned_over),
		cmocka_unit_test(secrets_of_everybody_are_none),
		cmocka_unit_test(a_queue_is_bounded),
		cmocka_unit_test(numbers_are_libcurls),
	};

	if (gs_sender_is_called(argc, argv, "fetch"))
		return gs_http_client_sender_main();
	return cmocka_run_group_tests_name("notify", tests, NULL, NULL);
}
