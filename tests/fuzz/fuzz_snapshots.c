/*
 * Records of samples as a damaged or hostile file may hold them, through the decoder and onto
 * screens of several sizes; what was decoded can be encoded and decoded again, and made coarser.
 */
#include <locale.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "model/node/record.h"
#include "snapshot_again.h"
#include "replay_main.h"
#include "server/store/rollup.h"
#include "output/tui/layout.h"

static const struct gs_tui_source source = {.title = "fuzz", .wake_fd = -1, .is_replay = true};

static void draw(struct tui_ui *ui, struct tui_screen *s, struct gs_buf *text)
{
	static const int sizes[][2] = {{1, 1}, {5, 20}, {24, 80}, {50, 200}};

	for (size_t i = 0; i < GS_ARRAY_LEN(sizes); i++)
		for (int mode = TUI_MAIN; mode <= TUI_CONFIRM; mode++) {
			ui->mode = (enum tui_mode)mode;
			ui->detail_pid = ui->table.n_rows ? ui->table.rows[0].pid : 0;
			if (tui_screen_reset(s, sizes[i][0], sizes[i][1]) < 0)
				abort();
			tui_layout(ui, s);
			gs_buf_reset(text);
			if (tui_screen_text(s, text) < 0)
				abort();
			for (size_t k = 0; k < text->bytes; k++)
				if (text->data[k] < 0x20 && text->data[k] != '\n')
					abort(); /* something that steers a terminal */
		}
}

/* What gathered becomes one moment, which can be read. */
static void put(struct gs_rollup *c)
{
	struct gs_node_decoder *d = gs_node_decoder_new();
	struct gs_buf buf = GS_BUF_INIT(64u << 20);
	uint32_t n_samples = gs_rollup_samples(c), told = 1;
	struct gs_batch batch;
	int64_t wall_ns;
	int n = 0;

	if (!d || gs_rollup_put(c, &buf, &wall_ns) < 0)
		abort();
	batch = (struct gs_batch){buf.data, buf.bytes};
	gs_records_for_each (&batch, r) {
		struct gs_node_snapshot *copy = NULL;
		struct gs_rollup_mark mark;

		if (gs_rollup_read(r, &mark))
			told = mark.n_samples;
		n += gs_node_decode(d, r, &copy) == GS_NODE_WHOLE;
		gs_node_snapshot_free(&copy);
	}
	if (n != 1 || (n_samples && told != n_samples))
		abort();
	gs_node_decoder_free(&d);
	gs_buf_fini(&buf);
}

static void gather(struct gs_rollup *c, struct gs_node_snapshot **copy,
		   const struct gs_rollup_mark *mark)
{
	for (unsigned f = 0; f < GS_GPU_FIELD_COUNT; f++)
		if (gs_rollup_n(mark, 0, f) == 0)
			abort();
	if (!gs_rollup_fits(c, *copy))
		put(c);
	if (gs_rollup_add(c, copy, mark) < 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct gs_tui_options o = {.size = sizeof(o), .interval_ns = 1000000000ull};
	struct gs_node_decoder *d = gs_node_decoder_new();
	struct gs_rollup *c = gs_rollup_new(10000000000ull);
	struct gs_rollup_mark mark = {0};
	/* A copy of the exact size and alignment: reading past the end is caught. */
	GS_FREE uint8_t *copy = malloc(bytes ? bytes : 1);
	struct gs_buf text = GS_BUF_INIT(1u << 20);
	struct gs_batch batch = {copy, bytes};
	struct tui_screen screen = {0};
	struct tui_ui ui;

	if (!d || !c || !copy || tui_ui_init(&ui, &source, &o) < 0)
		abort();
	if (bytes)
		memcpy(copy, data, bytes);
	setlocale(LC_CTYPE, "C.UTF-8");
	gs_records_for_each (&batch, r) {
		struct gs_node_snapshot *node = NULL, *same;

		(void)gs_rollup_read(r, &mark);
		if (gs_node_decode(d, r, &node) != GS_NODE_WHOLE)
			continue;
		same = again(node);
		gather(c, &same, &mark);
		gs_node_snapshot_free(&same);
		mark = (struct gs_rollup_mark){0};
		ui.table.tree = !ui.table.tree;
		if (tui_ui_show(&ui, node) < 0)
			abort();
		draw(&ui, &screen, &text);
	}
	if (gs_rollup_count(c))
		put(c);
	gs_rollup_free(&c);
	gs_node_decoder_free(&d);
	tui_ui_fini(&ui);
	tui_screen_fini(&screen);
	gs_buf_fini(&text);
	return 0;
}
