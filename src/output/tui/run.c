/* The loop between source, user and terminal. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "output/tui/input.h"
#include "output/tui/layout.h"
#include "output/tui/term.h"

#define MESSAGE_NS 6000000000ull /* after which a message has been read */
#define SILENT_NS  3000000000ull /* without anything new, beyond the interval: worth telling */

struct run {
	const struct gs_tui_source *source;
	struct tui_ui ui;
	struct tui_screen screen;
	uint64_t next_ns;                                 /* when a recording goes on */
	uint64_t received_ns;                             /* when something came last */
	bool is_silent;                                   /* the message says that nothing comes */
	char said[sizeof(((struct tui_ui *)0)->message)]; /* the message on the screen */
	uint64_t said_ns;                                 /* since when */
	unsigned n_shown; /* snapshots, without those before GPUs are known */
	bool quit;
};

static int show_sample(struct run *r, struct gs_node_snapshot *node)
{
	r->received_ns = gs_clock_mono_ns();
	if (r->is_silent)
		r->ui.message[0] = '\0';
	r->is_silent = false;
	r->n_shown += node->gpu->state != GS_GPU_STATE_READING;
	return tui_ui_show(&r->ui, node);
}

/* Go to a snapshot of a recording, with the snapshots before it as its history. */
static int go_to_sample(struct run *r, int64_t snapshot, struct gs_err *err)
{
	int64_t n = (int64_t)r->source->length(r->source->ctx), from;
	int e;

	if (!n)
		return 0;
	snapshot = snapshot < 0 ? 0 : snapshot >= n ? n - 1 : snapshot;
	from = snapshot >= TUI_HISTORY_LEN ? snapshot - TUI_HISTORY_LEN + 1 : 0;
	e = r->source->seek(r->source->ctx, (size_t)from, err);
	tui_ui_forget(&r->ui);
	for (; e == 0 && from <= snapshot; from++) {
		struct gs_node_snapshot *node = NULL;

		e = r->source->next(r->source->ctx, &node, err);
		if (e == GS_TUI_MOMENT)
			e = show_sample(r, node);
		else if (e > 0)
			break;
	}
	r->ui.position = (size_t)from;
	r->ui.length = (size_t)n;
	r->ui.ended = false;
	return e < 0 ? e : 0;
}

/* Everything that is new; of a recording the next snapshot. */
static int take_samples(struct run *r, struct gs_err *err)
{
	for (;;) {
		struct gs_node_snapshot *node = NULL;
		int e = r->source->next(r->source->ctx, &node, err);

		if (e < 0)
			return e;
		r->ui.ended = e == GS_TUI_END;
		if (e != GS_TUI_MOMENT)
			return 0;
		if (r->ui.paused && r->ui.node && !r->source->is_replay) {
			gs_node_snapshot_free(&node);
			r->received_ns = gs_clock_mono_ns();
			continue;
		}
		e = show_sample(r, node);
		if (e < 0)
			return e;
		if (r->source->is_replay) {
			r->ui.position++;
			r->ui.length = r->source->length(r->source->ctx);
			return 0;
		}
	}
}

static void save_setup(struct tui_ui *ui)
{
	struct gs_err why = {{0}};
	int e = ui->options.save ? ui->options.save(ui->options.save_ctx, &ui->options, &why) : 0;

	if (e < 0)
		tui_ui_show_message(ui, TUI_BAD, "not kept: %s", gs_err_text(&why, e));
}

static int answer_ui(struct run *r, struct tui_asked asked, struct gs_err *err)
{
	switch (asked.what) {
	case TUI_ASK_QUIT:
		r->quit = true;
		return 0;
	case TUI_ASK_INTERVAL:
		if (r->source->set_interval)
			r->source->set_interval(r->source->ctx, (uint64_t)asked.value);
		r->next_ns = gs_clock_mono_ns() + (uint64_t)asked.value;
		return 0;
	case TUI_ASK_THEME:
		tui_term_set_theme((enum gs_tui_theme)asked.value);
		return 0;
	case TUI_ASK_SAVE:
		save_setup(&r->ui);
		return 0;
	case TUI_ASK_STEP:
		r->ui.paused = true;
		if (asked.value == 1)
			return take_samples(r, err);
		return go_to_sample(r, (int64_t)r->ui.position - 1 + asked.value, err);
	case TUI_ASK_GO:
		r->ui.paused = true;
		return go_to_sample(r, asked.value, err);
	default:
		return 0;
	}
}

static int handle_input(struct run *r, struct gs_err *err)
{
	int e = 0;

	while (e == 0 && !r->quit) {
		struct tui_event ev = tui_term_next();

		if (ev.kind == TUI_EVENT_NONE)
			break;
		if (ev.kind == TUI_EVENT_KEY)
			e = answer_ui(r, tui_key(&r->ui, ev.key, r->screen.rows), err);
		else if (ev.kind == TUI_EVENT_MOUSE)
			e = answer_ui(r,
				      tui_mouse(&r->ui, &r->screen, ev.y, ev.x, ev.wheel, ev.twice),
				      err);
	}
	return e;
}

/* A message stands for a while, or until the next key. */
static void age_message(struct run *r)
{
	if (strcmp(r->said, r->ui.message) != 0) {
		memcpy(r->said, r->ui.message, sizeof(r->said));
		r->said_ns = gs_clock_mono_ns();
	} else if (r->said[0] && !r->is_silent && gs_clock_mono_ns() - r->said_ns > MESSAGE_NS) {
		r->ui.message[0] = r->said[0] = '\0';
	}
}

static int draw_screen(struct run *r)
{
	int rows, columns, e;

	age_message(r);

	tui_term_size(&rows, &columns);
	r->screen.ascii = r->ui.options.ascii;
	e = tui_screen_reset(&r->screen, rows, columns);
	if (e < 0)
		return e;
	tui_layout(&r->ui, &r->screen);
	tui_term_draw(&r->screen);
	return 0;
}

static void note_silence(struct run *r)
{
	uint64_t silent_ns = gs_clock_mono_ns() - r->received_ns;

	if (r->source->is_replay || silent_ns <= SILENT_NS + r->ui.options.interval_ns)
		return;
	r->is_silent = true;
	tui_ui_show_message(&r->ui, TUI_BAD,
			    "no new values for %.0f s: a driver call has not returned",
			    (double)silent_ns / 1e9);
}

/* Until when to wait, in ms; -1 for ever. */
static int wait_ms(const struct run *r)
{
	uint64_t now_ns = gs_clock_mono_ns();

	if (r->source->wake_fd >= 0)
		return 2000;
	if (r->ui.paused)
		return -1;
	return r->next_ns <= now_ns ? 0 : (int)((r->next_ns - now_ns) / 1000000 + 1);
}

static int run_loop(struct run *r, struct gs_err *err)
{
	int e = take_samples(r, err);

	while (e == 0 && !r->quit && !tui_term_is_interrupted()) {
		struct pollfd fds[2] = {{STDIN_FILENO, POLLIN, 0}, {r->source->wake_fd, POLLIN, 0}};
		int n;

		e = draw_screen(r);
		if (e < 0 || (r->ui.options.count && r->n_shown >= r->ui.options.count))
			return e;
		r->next_ns =
			r->next_ns ? r->next_ns : gs_clock_mono_ns() + r->ui.options.interval_ns;
		n = poll(fds, r->source->wake_fd >= 0 ? 2 : 1, wait_ms(r));
		if (n < 0 && errno != EINTR)
			return gs_err_set(err, -errno, "poll: %s", strerror(errno));
		if (n > 0 && fds[0].revents & (POLLHUP | POLLERR | POLLNVAL))
			return 0; /* the terminal was closed */
		e = handle_input(r, err);
		if (e < 0 || r->quit)
			return e;
		if (r->source->wake_fd >= 0) {
			if (n > 0 && fds[1].revents)
				e = take_samples(r, err);
			else
				note_silence(r);
		} else if (!r->ui.paused && gs_clock_mono_ns() >= r->next_ns) {
			r->next_ns = 0;
			e = take_samples(r, err);
		}
	}
	return e;
}

int gs_tui_run(const struct gs_tui_source *source, const struct gs_tui_options *options,
	       struct gs_err *err)
{
	struct run r = {.source = source, .received_ns = gs_clock_mono_ns()};
	int e = tui_ui_init(&r.ui, source, options);

	if (e == 0)
		e = tui_term_open(options->theme, err);
	if (e == 0) {
		e = run_loop(&r, err);
		tui_term_close();
	}
	tui_screen_fini(&r.screen);
	tui_ui_fini(&r.ui);
	return e;
}

static struct gs_node_snapshot *copy_of(const struct gs_node_snapshot *from)
{
	struct gs_node_snapshot *n = calloc(1, sizeof(*n));
	bool ok;

	if (!n)
		return NULL;
	*n = *from;
	n->gpu = gs_gpu_snapshot_copy(from->gpu);
	n->jobs = from->jobs ? gs_job_accounts_copy(from->jobs) : NULL;
	n->host = calloc(1, sizeof(*n->host));
	ok = n->gpu && n->host && (n->jobs || !from->jobs);
	if (ok) {
		*n->host = *from->host;
		n->host->process =
			malloc((from->host->n_processes + 1) * sizeof(*n->host->process));
		ok = n->host->process;
	}
	if (!ok) {
		gs_node_snapshot_free(&n);
		return NULL;
	}
	if (from->host->n_processes)
		memcpy(n->host->process, from->host->process,
		       from->host->n_processes * sizeof(*n->host->process));
	return n;
}

int gs_tui_print(FILE *out, const struct gs_tui_source *source,
		 const struct gs_node_snapshot *before, const struct gs_node_snapshot *node,
		 const struct gs_tui_options *options, int columns)
{
	static const struct gs_tui_source nothing = {.title = "", .wake_fd = -1};
	const struct gs_node_snapshot *shown[] = {before, node};
	struct gs_buf text = GS_BUF_INIT(64u << 20);
	struct tui_screen s = {.ascii = options->ascii};
	struct tui_ui ui;
	int e = tui_ui_init(&ui, source ? source : &nothing, options);

	ui.print_all = true;
	for (size_t i = 0; e == 0 && i < GS_ARRAY_LEN(shown); i++) {
		struct gs_node_snapshot *copy;

		if (!shown[i])
			continue;
		copy = copy_of(shown[i]);
		e = copy ? tui_ui_show(&ui, copy) : -ENOMEM;
	}
	if (e == 0)
		e = tui_screen_reset(&s, tui_rows_of_all(&ui, columns), columns);
	if (e == 0) {
		tui_layout(&ui, &s);
		e = tui_screen_text(&s, &text);
	}
	if (e == 0 && (fwrite(text.data, 1, text.bytes, out) != text.bytes || fflush(out)))
		e = -errno;
	gs_buf_fini(&text);
	tui_screen_fini(&s);
	tui_ui_fini(&ui);
	return e;
}
