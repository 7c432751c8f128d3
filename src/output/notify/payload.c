/* Messages as JSON, as mail, as a line. Titles and labels come from names of jobs and programs, so
 * they may hold anything: each format's own escaping is applied to all of it. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "output/notify/notify_int.h"
#include "core/text/json.h"
#include "core/text/put.h"
#include "core/text/text.h"

static const char *event_name(enum gs_alert_event e)
{
	return e == GS_ALERT_END ? "resolved" : "firing";
}

static int put_time(struct gs_buf *out, int64_t wall_ns)
{
	char text[GS_PUT_TIME];

	return gs_buf_put(out, text, (size_t)(gs_put_time(text, wall_ns, 3) - text));
}

struct writer {
	struct gs_buf *out;
	int r;
};

static void append_text(struct writer *w, const char *text)
{
	if (w->r == 0)
		w->r = gs_buf_puts(w->out, text);
}

int gs_notify_payload_json(const struct gs_alert_message *m, struct gs_buf *out)
{
	gs_json_open(out, NULL, '{');
	gs_json_text(out, "status", event_name(m->event));
	gs_json_text(out, "id", m->key);
	gs_json_text(out, "rule", m->rule);
	gs_json_text(out, "severity", gs_alert_severity_name(m->severity));
	gs_json_text(out, "host", m->host);
	gs_json_open(out, "subject", '{');
	gs_json_text(out, "kind", gs_alert_kind_name(m->kind));
	gs_json_text(out, "id", m->id);
	gs_json_text(out, "title", m->title);
	gs_json_close(out, '}');
	gs_json_open(out, "labels", '{');
	for (size_t i = 0; i < m->n_labels; i++)
		gs_json_text(out, m->label[i].name, m->label[i].value);
	gs_json_close(out, '}');
	gs_json_text(out, "condition", m->condition);
	gs_json_open(out, "values", '{');
	for (size_t i = 0; i < m->n_evidence; i++)
		gs_json_double(out, m->evidence[i].key, m->evidence[i].value);
	gs_json_close(out, '}');
	gs_json_i64(out, "count", m->n_members ? (int64_t)m->n_members : 1);
	gs_json_open(out, "members", '[');
	for (size_t i = 0; i < m->n_members; i++) {
		gs_json_open(out, NULL, '{');
		gs_json_text(out, "id", m->member[i].key);
		gs_json_text(out, "subject", m->member[i].id);
		gs_json_close(out, '}');
	}
	gs_json_close(out, ']');
	gs_json_text(out, "message", m->text);
	gs_json_time(out, "starts_at", m->start_wall_ns);
	gs_json_time(out, "ends_at", m->end_wall_ns);
	if (m->event == GS_ALERT_END)
		gs_json_text(out, "ended_because", m->cause);
	(void)gs_buf_puts(out, "}\n");
	return out->r;
}

int gs_notify_payload_alertmanager(const struct gs_alert_message *m, int64_t now_wall_ns,
				   uint64_t repeat_ns, struct gs_buf *out)
{
	/* As Prometheus does it: over after four repeats that did not come. */
	int64_t end_ns =
		m->event == GS_ALERT_END ? m->end_wall_ns : now_wall_ns + 4 * (int64_t)repeat_ns;

	gs_json_open(out, NULL, '[');
	gs_json_open(out, NULL, '{');
	gs_json_open(out, "labels", '{');
	gs_json_text(out, "alertname", m->rule);
	gs_json_text(out, "severity", gs_alert_severity_name(m->severity));
	gs_json_text(out, "instance", m->host);
	gs_json_text(out, "subject", gs_alert_kind_name(m->kind));
	gs_json_text(out, "subject_id", m->id);
	for (size_t i = 0; i < m->n_labels; i++)
		gs_json_text(out, m->label[i].name, m->label[i].value);
	gs_json_close(out, '}');
	gs_json_open(out, "annotations", '{');
	gs_json_text(out, "summary", m->title);
	gs_json_text(out, "description", m->text);
	gs_json_text(out, "condition", m->condition);
	gs_json_close(out, '}');
	gs_json_time(out, "startsAt", m->start_wall_ns);
	gs_json_time(out, "endsAt", end_ns);
	(void)gs_buf_puts(out, "}]\n");
	return out->r;
}

int gs_notify_payload_line(const struct gs_alert_message *m, int64_t now_wall_ns, bool journal,
			   struct gs_buf *out)
{
	/* sd-daemon(3): 3 err, 4 warning, 5 notice, 6 info. */
	static const int priority[] = {6, 4, 3};
	struct writer w = {out, 0};
	char text[1200];

	if (journal)
		w.r = gs_buf_printf(out, "<%d>",
				    m->event == GS_ALERT_END ? 5 : priority[m->severity % 3]);
	else
		w.r = put_time(out, now_wall_ns);
	snprintf(text, sizeof(text), "%salert %s %s %s: %s%s%s%s%s", journal ? "" : " ",
		 event_name(m->event), gs_alert_severity_name(m->severity), m->rule, m->title,
		 m->text[0] ? ": " : "", m->text, m->cause[0] ? " - " : "", m->cause);
	if (w.r == 0)
		w.r = gs_text_line(out, text);
	append_text(&w, "\n");
	return w.r;
}

/* --- mail (RFC 5322, 2045, 2047) --- */

static int put_base64(struct gs_buf *out, const uint8_t *data, size_t n)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i += 3) {
		uint32_t v = (uint32_t)data[i] << 16 |
			     (i + 1 < n ? (uint32_t)data[i + 1] << 8 : 0) |
			     (i + 2 < n ? data[i + 2] : 0);
		char four[5] = {digits[v >> 18], digits[v >> 12 & 63],
				i + 1 < n ? digits[v >> 6 & 63] : '=',
				i + 2 < n ? digits[v & 63] : '=', '\0'};

		r = gs_buf_puts(out, four);
	}
	return r;
}

static bool is_plain(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || (unsigned char)*text > 0x7e)
			return false;
	return true;
}

/* An unstructured head: as it is, or in encoded words that end with whole characters. */
static void put_head(struct writer *w, const char *name, const char *text)
{
	append_text(w, name);
	append_text(w, ":");
	if (is_plain(text) && !strstr(text, "=?") && strlen(text) < 900) {
		append_text(w, " ");
		append_text(w, text);
		append_text(w, "\r\n");
		return;
	}
	while (*text && w->r == 0) {
		GS_CLEANUP(gs_buf_fini) struct gs_buf piece = GS_BUF_INIT(256);

		/* 75 characters at most, of which 12 are the frame. */
		while (*text && piece.bytes < 40 && w->r == 0) {
			size_t n;
			uint32_t c = gs_text_decode(text, &n);

			if (c == 0xfffd || c < 0x20 || c == 0x7f)
				w->r = gs_buf_puts(&piece, c < 0x20 ? " " : "?");
			else
				w->r = gs_buf_put(&piece, text, n);
			text += n;
		}
		append_text(w, " =?UTF-8?B?");
		if (w->r == 0)
			w->r = put_base64(w->out, piece.data, piece.bytes);
		append_text(w, *text ? "?=\r\n" : "?=");
	}
	append_text(w, "\r\n");
}

static void put_date(struct writer *w, int64_t wall_ns)
{
	static const char *const days[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
	static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
					     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
	time_t s = (time_t)(wall_ns / 1000000000);
	struct tm tm;

	gmtime_r(&s, &tm);
	if (w->r == 0)
		w->r = gs_buf_printf(w->out, "Date: %s, %d %s %d %02d:%02d:%02d +0000\r\n",
				     days[tm.tm_wday], tm.tm_mday, months[tm.tm_mon],
				     tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
}

static void put_row(struct writer *w, const char *name, const char *value)
{
	if (w->r == 0 && value[0])
		w->r = gs_buf_printf(w->out, "%-12s", name);
	if (w->r == 0 && value[0])
		w->r = gs_text_line(w->out, value);
	append_text(w, value[0] ? "\r\n" : "");
}

static int mail_text(const struct gs_alert_message *m, struct gs_buf *out)
{
	struct writer w = {out, 0};
	char number[40];

	put_row(&w, m->event == GS_ALERT_END ? "resolved" : "alert", m->rule);
	put_row(&w, "about", m->title);
	put_row(&w, "because", m->text);
	put_row(&w, "over", m->cause);
	put_row(&w, "severity", gs_alert_severity_name(m->severity));
	put_row(&w, "condition", m->condition);
	put_row(&w, "node", m->host);
	append_text(&w, "since       ");
	if (w.r == 0)
		w.r = put_time(out, m->start_wall_ns);
	if (m->end_wall_ns) {
		append_text(&w, "\r\nuntil       ");
		if (w.r == 0)
			w.r = put_time(out, m->end_wall_ns);
	}
	append_text(&w, "\r\n\r\n");
	for (size_t i = 0; i < m->n_evidence; i++) {
		snprintf(number, sizeof(number),
			 isfinite(m->evidence[i].value) ? "%.6g" : "unknown", m->evidence[i].value);
		if (w.r == 0)
			w.r = gs_buf_printf(out, "%s = %s\r\n", m->evidence[i].key, number);
	}
	for (size_t i = 0; i < m->n_labels; i++)
		put_row(&w, m->label[i].name, m->label[i].value);
	return w.r;
}

int gs_notify_payload_mail(const struct gs_alert_message *m, const char *from,
			   const char *recipients, int64_t now_wall_ns, struct gs_buf *out)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf body = GS_BUF_INIT(1 << 15);
	struct writer w = {out, mail_text(m, &body)};
	char subject[320];

	snprintf(subject, sizeof(subject), "[gpuscope %s] %s: %s",
		 m->event == GS_ALERT_END ? "resolved" : gs_alert_severity_name(m->severity),
		 m->rule, m->title);
	put_date(&w, now_wall_ns);
	put_head(&w, "From", from);
	append_text(&w, "To: ");
	for (const char *at = recipients; *at && w.r == 0;) {
		size_t n = strcspn(at, ",");

		w.r = gs_buf_printf(out, "%s%.*s", at == recipients ? "" : ",\r\n ", (int)n, at);
		at += n + (at[n] == ',');
	}
	append_text(&w, "\r\n");
	put_head(&w, "Subject", subject);
	if (w.r == 0)
		w.r = gs_buf_printf(out, "Message-ID: <%s.%s.%lld@gpuscope>\r\n", m->key,
				    event_name(m->event), (long long)now_wall_ns);
	/* What was resolved is filed below what it resolves. */
	if (w.r == 0)
		w.r = gs_buf_printf(out, "References: <%s@gpuscope>\r\n", m->key);
	append_text(&w, "Auto-Submitted: auto-generated\r\n"
			"MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n"
			"Content-Transfer-Encoding: base64\r\n\r\n");
	for (size_t i = 0; i < body.bytes && w.r == 0; i += 57) {
		w.r = put_base64(out, body.data + i, body.bytes - i < 57 ? body.bytes - i : 57);
		append_text(&w, "\r\n");
	}
	return w.r;
}
