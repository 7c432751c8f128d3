/* Senders that go wrong: each is ended, counted, named in one line, and followed by another one.
 * This program is also the sender. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "net/http_client/http_client_int.h"
#include "net/uplink/uplink_int.h"
#include "core/base/sanitizer.h"

/* --- the process: does what the URL, or a link's title, says --- */

static const struct gs_sender_wait forever = {.until_ns = UINT64_MAX};

static void say(uint32_t kind, const void *data, size_t bytes)
{
	struct gs_buf buf = GS_BUF_INIT(1 << 20);
	struct gs_wire_out out = {&buf, 0};
	size_t at = gs_sender_begin(&out);

	gs_wire_put(&out, data, bytes);
	gs_sender_close(&out, at, kind);
	if (gs_sender_send(GS_SENDER_SOCKET, &buf, -1, &forever) < 0)
		_exit(0);
	gs_buf_fini(&buf);
}

static void say_hello(uint32_t kind, unsigned held, bool has_text)
{
	const uint8_t hello[] = {(uint8_t)held, 0, 0, 0};
	struct gs_buf buf = GS_BUF_INIT(4096);
	struct gs_wire_out out = {&buf, 0};

	gs_wire_put(&out, hello, sizeof(hello));
	if (has_text)
		gs_wire_put_text(&out, "");
	say(kind, buf.data, buf.bytes);
	gs_buf_fini(&buf);
}

/* pause(2) is refused in there. */
static _Noreturn void stand_still(void)
{
	for (;;)
		(void)poll(NULL, 0, 1000);
}

/* Address space alone: no page of it is used. */
static void eat_memory(void)
{
	size_t all = 0;

	while (mmap(NULL, 64 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
		all += 64 << 20;
	if (all <= 1u << 30)
		abort(); /* as programs do that find no memory */
	stand_still();
}

/* Takes what comes, so that it is not the holder's own message that shows what is wrong. */
static void wait_for_end(void)
{
	struct gs_buf in = GS_BUF_INIT(1 << 20);
	uint32_t kind;

	while (gs_sender_receive(GS_SENDER_SOCKET, &in, in.max_bytes, &kind, NULL, &forever) >= 0)
		;
	_exit(0);
}

static void go_wrong(const char *how)
{
	static const uint8_t nonsense[64] = {1, 2, 3};

	if (strstr(how, "dies"))
		raise(SIGSEGV); /* its default action: nothing catches it */
	if (strstr(how, "leaves"))
		_exit(7);
	if (strstr(how, "eats"))
		eat_memory();
	if (strstr(how, "loops"))
		for (volatile uint64_t i = 0;; i++)
			;
	if (strstr(how, "hangs"))
		stand_still();
	if (strstr(how, "nonsense"))
		say(FETCH_DONE, nonsense, sizeof(nonsense));
	if (strstr(how, "long"))
		say(FETCH_DATA, calloc(1, 900000), 900000);
	if (strstr(how, "other"))
		say(99, "", 0);
	wait_for_end();
}

static int be_fetch(void)
{
	struct gs_buf in = GS_BUF_INIT(1 << 20);
	struct gs_http_client_http q;
	struct gs_wire_in w;
	uint64_t max;
	uint32_t kind;

	say_hello(FETCH_HELLO, gs_sender_confine(), true);
	if (gs_sender_receive(GS_SENDER_SOCKET, &in, in.max_bytes, &kind, NULL, &forever) < 0)
		_exit(0);
	w = GS_WIRE_IN(in.data, in.bytes);
	if (!http_client_take_http(&w, &q, &max))
		_exit(9);
	go_wrong(q.url);
	return 0;
}

static void say_number(enum gs_uplink_message what, uint64_t n)
{
	say(what, &n, sizeof(n));
}

static int be_link(void)
{
	struct gs_buf in = GS_BUF_INIT(1 << 20);
	const char *how = NULL;
	struct gs_wire_in w;
	uint32_t kind;
	unsigned held;

	if (gs_sender_receive(GS_SENDER_SOCKET, &in, in.max_bytes, &kind, NULL, &forever) < 0)
		_exit(0);
	w = GS_WIRE_IN(in.data, in.bytes);
	(void)gs_wire_u32(&w);
	(void)gs_wire_u64(&w);
	for (int i = 0; i < 4; i++)
		how = gs_wire_text(&w); /* the last is the title */
	held = gs_sender_confine();
	if (!how)
		_exit(9);
	if (strstr(how, "early"))
		say_number(LINK_ACK, 1);
	say_hello(LINK_HELLO, strstr(how, "unconfined") ? held & ~GS_SANDBOX_SECCOMP : held, false);
	if (strstr(how, "acknowledges"))
		say_number(LINK_ACK, 1); /* what was never sent */
	if (strstr(how, "resumes"))
		say_number(LINK_RESUME, 1);
	if (strstr(how, "forgets"))
		say_number(LINK_RENEW, 5);
	if (strstr(how, "sends ahead"))
		say_number(LINK_SENT, 1000000);
	if (strstr(how, "connects"))
		say_number(LINK_CONNECT, 0); /* it has no such socket: answered, and no lie */
	if (strstr(how, "finishes"))
		say(LINK_DONE, "", 0);
	if (strstr(how, "state"))
		say(LINK_STATE, "abc", 3);
	go_wrong(how);
	return 0;
}

/* --- tests --- */

static uint64_t lost(enum gs_sender_loss loss)
{
	uint64_t n[GS_SENDER_N_LOSSES];

	gs_sender_losses(n);
	return n[loss];
}

static void a_request_that_goes_wrong(void **state)
{
	static const struct {
		const char *url;
		int r;
		enum gs_sender_loss loss;
		const char *text;
	} cases[] = {
		{"http://dies/", -EIO, GS_SENDER_DIED, "was killed by signal"},
		{"http://leaves/", -EIO, GS_SENDER_DIED, "ended with status 7"},
		{"http://eats/", -EIO, GS_SENDER_DIED, "was killed by signal 6"},
		{"http://loops/", -ETIME, GS_SENDER_HUNG, "did not answer and was killed"},
		{"http://hangs/", -ETIME, GS_SENDER_HUNG, "did not answer and was killed"},
		{"http://nonsense/", -EBADMSG, GS_SENDER_LIED, "violated the protocol"},
		{"http://long/", -EBADMSG, GS_SENDER_LIED, "violated the protocol"},
		{"http://other/", -EBADMSG, GS_SENDER_LIED, "violated the protocol"},
	};

	(void)state;
	for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
		const uint64_t before = lost(cases[i].loss);
		/* Only what waits for the time to be over depends on it. */
		const struct gs_http_client_http q = {
			.url = cases[i].url,
			.timeout_ns = cases[i].r == -ETIME ? 1000000 : 120000000000};
		struct gs_err err = {{0}};
		long status = 9;
		int r;

#ifdef GS_SANITIZER
		if (strstr(q.url, "eats") || strstr(q.url, "dies"))
			continue; /* has no limit there; reports by its own way */
#endif
		r = gs_http_client_http(&q, &status, NULL, &err);
		if (r != cases[i].r || !strstr(err.text, cases[i].text) ||
		    !strstr(err.text, "the process that sends "))
			fail_msg("%s: %d \"%s\"", q.url, r, err.text);
		assert_int_equal(status, 0);
		assert_int_equal(lost(cases[i].loss), before + 1);
	}
}

/* It ends although the sender never answers. */
static void a_request_that_is_stopped(void **state)
{
	static const atomic_bool stop = true;
	const struct gs_http_client_http q = {.url = "http://hangs/", .stop = &stop};
	struct gs_err err = {{0}};
	long status;

	(void)state;
	assert_int_equal(gs_http_client_http(&q, &status, NULL, &err), -ECANCELED);
}

#define WAIT_TURNS 30000 /* of 10 ms */

static char said[8192];
static pthread_mutex_t said_lock = PTHREAD_MUTEX_INITIALIZER;

static void on_say(void *ctx, const char *text)
{
	size_t n;

	(void)ctx;
	pthread_mutex_lock(&said_lock);
	n = strlen(said);
	snprintf(said + n, sizeof(said) - n, "%s\n", text);
	pthread_mutex_unlock(&said_lock);
}

static bool was_said(const char *text)
{
	bool found;

	pthread_mutex_lock(&said_lock);
	found = strstr(said, text);
	pthread_mutex_unlock(&said_lock);
	return found;
}

static struct gs_uplink *start_link(const char *how)
{
	static const char *const address[] = {"127.0.0.1:1"};
	const struct gs_uplink_options o = {.size = sizeof(o),
					    .addresses = address,
					    .n_addresses = 1,
					    .kind = GS_UPLINK_SAMPLES,
					    .machine_id = "m",
					    .title = how,
					    .on_message = on_say};
	const struct gs_uplink_span span = {1, 2, 1, 0};
	const struct gs_batch records = {(const uint8_t *)"records", 8};
	struct gs_uplink *link = NULL;
	struct gs_err err = {{0}};

	/* Another link's thread may still have words. */
	pthread_mutex_lock(&said_lock);
	said[0] = 0;
	pthread_mutex_unlock(&said_lock);
	assert_int_equal(gs_uplink_start(&o, &link, &err), 0);
	assert_int_equal(gs_uplink_push(link, &records, &span), 0);
	return link;
}

static void wait_for_loss(enum gs_sender_loss loss, uint64_t n, const char *how)
{
	for (int i = 0; i < WAIT_TURNS && lost(loss) < n; i++)
		usleep(10000);
	if (lost(loss) < n)
		fail_msg("%s: not counted", how);
}

/* A loss is counted before it is said. */
static void wait_for_words(const char *text)
{
	for (int i = 0; i < WAIT_TURNS && !was_said(text); i++)
		usleep(10000);
	if (!was_said(text))
		fail_msg("not said: %s, but: %s", text, said);
}

/* What was pushed still waits, whatever they say. */
static void links_that_go_wrong(void **state)
{
	static const struct {
		const char *how;
		enum gs_sender_loss loss;
	} cases[] = {
#ifndef GS_SANITIZER
		{"dies", GS_SENDER_DIED},        {"eats", GS_SENDER_DIED},
#endif
		{"leaves", GS_SENDER_DIED},      {"early", GS_SENDER_LIED},
		{"unconfined", GS_SENDER_LIED},  {"acknowledges", GS_SENDER_LIED},
		{"resumes", GS_SENDER_LIED},     {"forgets", GS_SENDER_LIED},
		{"sends ahead", GS_SENDER_LIED}, {"finishes", GS_SENDER_LIED},
		{"state", GS_SENDER_LIED},       {"other", GS_SENDER_LIED},
		{"long", GS_SENDER_LIED},
	};

	(void)state;
	for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
		/* The second is lost of another one than the first. */
		const uint64_t n = lost(cases[i].loss) + 2;
		struct gs_uplink *link = start_link(cases[i].how);
		struct gs_uplink_stats st;

		wait_for_loss(cases[i].loss, n, cases[i].how);
		gs_uplink_stats(link, &st);
		assert_int_equal(st.waiting_samples, 1);
		assert_int_equal(st.acked_batches, 0);
		if (!was_said("the process that sends ") || !was_said("it is restarted"))
			fail_msg("%s: %s", cases[i].how, said);
		assert_int_equal(gs_uplink_stop(&link, 0, false), 1);
	}
}

/* Both at once: each takes as long as a holder waits for a sign of life. */
static void links_that_hang(void **state)
{
	const uint64_t n = lost(GS_SENDER_HUNG) + 2;
	struct gs_uplink *loops = start_link("loops"), *hangs = start_link("hangs, connects");

	(void)state;
	wait_for_loss(GS_SENDER_HUNG, n, "hangs");
	wait_for_words("the process that sends did not answer and was killed");
	assert_int_equal(gs_uplink_stop(&loops, 0, false), 1);
	assert_int_equal(gs_uplink_stop(&hangs, 0, false), 1);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_that_goes_wrong),
		cmocka_unit_test(a_request_that_is_stopped),
		cmocka_unit_test(links_that_go_wrong),
		cmocka_unit_test(links_that_hang),
	};

	if (gs_sender_is_called(argc, argv, FETCH_WORK))
		return be_fetch();
	if (gs_sender_is_called(argc, argv, LINK_WORK))
		return be_link();
	return cmocka_run_group_tests_name("sender", tests, NULL, NULL);
}
