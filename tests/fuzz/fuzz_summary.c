/*
 * A summary whose names are any bytes, in every format: all output is UTF-8, a table holds no
 * control character and no line longer than the page. First byte: width of the page, second:
 * number of calls; then texts that end in a zero.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "output/report/summary.h"
#include "core/text/text.h"
#include "model/trace/record.h"
#include "replay_main.h"

#define CHECK(c)                                                                                   \
	do {                                                                                       \
		if (!(c))                                                                          \
			abort();                                                                   \
	} while (0)

static void check_text(const char *text, size_t bytes, bool table, size_t width)
{
	size_t columns = 0;

	CHECK(strlen(text) == bytes);
	for (size_t n; *text; text += n) {
		uint32_t c = gs_text_decode(text, &n);

		CHECK(c != 0xfffd || n == 3);
		if (c == '\n') {
			columns = 0;
			continue;
		}
		columns += gs_text_char_columns(c);
		CHECK(!table || (c >= 0x20 && c != 0x7f && (c < 0x80 || c > 0x9f)));
		CHECK(!table || columns <= width);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct gs_report_summary_style style = {.size = sizeof(style), .threads = true, .n_top = 1};
	char *copy GS_FREE = malloc(bytes + 1);
	const char *text[16];
	size_t at = 2;

	if (!copy || bytes < 2)
		return 0;
	memcpy(copy, data, bytes);
	copy[bytes] = '\0';
	style.width = 20 + data[0];
	style.view = (enum gs_summary_view)(data[0] % (GS_SUMMARY_LINES + 1));
	style.threads = style.view == GS_SUMMARY_ALL;
	for (size_t i = 0; i < GS_ARRAY_LEN(text); i++) {
		text[i] = at < bytes ? copy + at : "";
		at += strlen(text[i]) + 1;
	}

	struct gs_function_stats functions[] = {
		{.layer = data[1] % 5, .name = text[0], .calls = data[1], .inner = data[0]},
		{.layer = data[1] % 5, .name = text[1], .calls = 1, .total_ns = data[1] * 12345ull},
		{.layer = data[1] % 5,
		 .name = text[2],
		 .calls = 1,
		 .bytes = 1ull << (data[1] % 64)},
	};
	struct gs_function_list list = {functions, GS_ARRAY_LEN(functions)};
	struct gs_thread_summary thread = {.comm = text[3], .functions = list};
	struct gs_process_summary process = {.comm = text[4],
					     .exe = text[5],
					     .cmdline = text[6],
					     .container = text[7],
					     .functions = list,
					     .threads = &thread,
					     .n_threads = 1};
	struct gs_process_summary processes[] = {process, process};
	struct gs_error_count error = {
		.function = text[8], .name = text[9], .code = data[1], .count = 1};
	struct gs_attach_status attach = {.path = text[10], .reason = text[11], .n_stepped = 1};
	struct gs_lost_count lost = {.detail = text[12], .cause = data[1] % 14, .count = 1};
	struct gs_open_call open_call = {.comm = text[13], .function = text[14]};
	struct gs_comm_summary comm = {.origin = text[15], .n_ranks = -1};
	struct gs_summary s = {
		.command = text[0],
		.host = text[1],
		.kernel = text[2],
		.attach_mode = text[3],
		.end_reason = text[4],
		.mode = GS_SESSION_EVENTS,
		.start_wall_ns = (int64_t)data[1] << 55,
		.functions = list,
		.processes = processes,
		.n_processes = 2,
		.errors = &error,
		.n_errors = 1,
		.attached = &attach,
		.n_attached = 1,
		.attach_failures = &attach,
		.n_attach_failures = 1,
		.lost = &lost,
		.n_lost = 1,
		.open_calls = &open_call,
		.n_open_calls = 1,
		.comms = &comm,
		.n_comms = 1,
	};

	for (unsigned format = GS_SUMMARY_TABLE; format <= GS_SUMMARY_YAML; format++) {
		char *out GS_FREE = NULL;
		size_t n;
		FILE *f = open_memstream(&out, &n);

		if (!f)
			return 0;
		CHECK(gs_report_summary_write(f, &s, format, &style) == 0);
		fclose(f);
		check_text(out, n, format == GS_SUMMARY_TABLE, style.width);
	}
	return 0;
}
