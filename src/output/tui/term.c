#include "output/tui/term.h"

#include <curses.h>
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <string.h>
#include <term.h>
#include <unistd.h>

#undef columns /* term.h has macros of such names */

#include "core/base/clock.h"
#include "output/tui/input.h"

/* Presses and releases that come at once, as over a slow connection, ncurses makes clicks of. */
#define PRESSED   (BUTTON1_PRESSED | BUTTON1_CLICKED)
#define DOUBLED   (BUTTON1_DOUBLE_CLICKED | BUTTON1_TRIPLE_CLICKED)
#define TWICE_NS  400000000ull
#define ESCAPE_MS 25 /* after which Esc is that key and not the beginning of a sequence */

struct look {
	short fg, bg; /* -1 the terminal's own */
	attr_t attr;
};

static const struct look looks[3][TUI_N_STYLES] =
	{
		[GS_TUI_DARK] =
			{
				[TUI_PLAIN] = {-1, -1, 0},
				[TUI_DIM] = {COLOR_CYAN, -1, A_DIM},
				[TUI_BOLD] = {-1, -1, A_BOLD},
				[TUI_TITLE] = {COLOR_GREEN, -1, A_BOLD},
				[TUI_HEAD] = {COLOR_BLACK, COLOR_GREEN, 0},
				[TUI_HEAD_SORT] = {COLOR_BLACK, COLOR_CYAN, A_BOLD},
				[TUI_GOOD] = {COLOR_GREEN, -1, 0},
				[TUI_WARN] = {COLOR_YELLOW, -1, 0},
				[TUI_BAD] = {COLOR_RED, -1, A_BOLD},
				[TUI_ALARM] = {COLOR_WHITE, COLOR_RED, A_BOLD},
				[TUI_SELECTED] = {COLOR_BLACK, COLOR_CYAN, 0},
				[TUI_KEY] = {COLOR_CYAN, -1, A_BOLD},
				[TUI_GRAPH] = {COLOR_GREEN, -1, 0},
				[TUI_GRAPH_2] = {COLOR_MAGENTA, -1, 0},
			},
		[GS_TUI_LIGHT] =
			{
				[TUI_PLAIN] = {COLOR_BLACK, -1, 0},
				[TUI_DIM] = {COLOR_BLUE, -1, 0},
				[TUI_BOLD] = {COLOR_BLACK, -1, A_BOLD},
				[TUI_TITLE] = {COLOR_BLUE, -1, A_BOLD},
				[TUI_HEAD] = {COLOR_WHITE, COLOR_BLUE, 0},
				[TUI_HEAD_SORT] = {COLOR_WHITE, COLOR_BLACK, A_BOLD},
				[TUI_GOOD] = {COLOR_GREEN, -1, 0},
				[TUI_WARN] = {COLOR_MAGENTA, -1, 0},
				[TUI_BAD] = {COLOR_RED, -1, A_BOLD},
				[TUI_ALARM] = {COLOR_WHITE, COLOR_RED, A_BOLD},
				[TUI_SELECTED] = {COLOR_WHITE, COLOR_BLUE, A_BOLD},
				[TUI_KEY] = {COLOR_BLUE, -1, A_BOLD},
				[TUI_GRAPH] = {COLOR_BLUE, -1, 0},
				[TUI_GRAPH_2] = {COLOR_MAGENTA, -1, 0},
			},
		[GS_TUI_MONO] =
			{
				[TUI_DIM] = {-1, -1, A_DIM},
				[TUI_BOLD] = {-1, -1, A_BOLD},
				[TUI_TITLE] = {-1, -1, A_BOLD},
				[TUI_HEAD] = {-1, -1, A_REVERSE},
				[TUI_HEAD_SORT] = {-1, -1, A_REVERSE | A_BOLD | A_UNDERLINE},
				[TUI_WARN] = {-1, -1, A_BOLD},
				[TUI_BAD] = {-1, -1, A_BOLD | A_UNDERLINE},
				[TUI_ALARM] = {-1, -1, A_REVERSE | A_BOLD},
				[TUI_SELECTED] = {-1, -1, A_REVERSE},
				[TUI_KEY] = {-1, -1, A_BOLD},
			},
};

static struct {
	SCREEN *screen; /* owned */
	attr_t attr[TUI_N_STYLES];
	short pair[TUI_N_STYLES];
	uint64_t pressed_ns;
	int pressed_y, pressed_x;
} term;

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
	interrupted = number;
}

bool tui_term_is_interrupted(void)
{
	return interrupted != 0;
}

static void choose_looks(enum gs_tui_theme theme)
{
	bool colors = theme != GS_TUI_MONO && has_colors() && start_color() == OK;
	const struct look *l;

	if (colors)
		use_default_colors();
	l = looks[colors ? theme : GS_TUI_MONO];
	for (int i = 0; i < TUI_N_STYLES; i++) {
		term.attr[i] = l[i].attr;
		term.pair[i] = 0;
		if (colors && i + 1 < COLOR_PAIRS &&
		    init_pair((short)(i + 1), l[i].fg, l[i].bg) == OK)
			term.pair[i] = (short)(i + 1);
	}
}

void tui_term_set_theme(enum gs_tui_theme theme)
{
	choose_looks(theme);
	clearok(stdscr, TRUE);
}

int tui_term_open(enum gs_tui_theme theme, struct gs_err *err)
{
	struct sigaction sa = {.sa_handler = on_signal};
	const char *name = getenv("TERM"), *places;
	int found = 0;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return gs_err_set(
			err, -ENOTTY,
			"standard input and output must be a terminal; use --once for a single view");
	if (!name || !*name)
		return gs_err_set(
			err, -EINVAL,
			"TERM is not set, so the kind of terminal is not known: try TERM=xterm gpuscope top, or --once");
	/* Asked first, since newterm() does not say what is wrong. */
	if (setupterm(name, STDOUT_FILENO, &found) != OK || found != 1)
		return gs_err_set(
			err, -EINVAL,
			"the terminal \"%.64s\" (TERM) is not known to this machine: try TERM=xterm gpuscope top, or --once",
			name);
	places = tigetstr("cup");
	del_curterm(cur_term); /* newterm() has one of its own */
	/* With a terminal that cannot do it ncurses would write a jumble. */
	if (places && places != (char *)-1)
		term.screen = newterm(NULL, stdout, stdin);
	if (!term.screen)
		return gs_err_set(
			err, -EINVAL,
			"the terminal \"%.64s\" (TERM) cannot show a screen: use --once for a single view",
			name);
	set_escdelay(ESCAPE_MS);
	cbreak();
	noecho();
	nonl();
	curs_set(0);
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	intrflush(stdscr, FALSE);
	mouseinterval(0); /* each press at once; double ones are recognised here */
	mousemask(PRESSED | DOUBLED | BUTTON4_PRESSED | BUTTON5_PRESSED, NULL);
	choose_looks(theme);
	interrupted = 0;
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
	sigaction(SIGQUIT, &sa, NULL);
	return 0;
}

void tui_term_close(void)
{
	if (!term.screen)
		return;
	/* Where the terminal has no second screen the shell goes on at the last line: an empty one.
	 */
	move(LINES - 1, 0);
	clrtoeol();
	refresh();
	endwin();
	delscreen(term.screen);
	term.screen = NULL;
}

void tui_term_size(int *ret_rows, int *ret_columns)
{
	getmaxyx(stdscr, *ret_rows, *ret_columns);
}

void tui_term_draw(const struct tui_screen *s)
{
	for (int y = 0; y < s->rows; y++)
		for (int x = 0; x < s->columns; x++) {
			const struct tui_cell *c =
				&s->cells[(size_t)y * (size_t)s->columns + (size_t)x];
			unsigned style = c->style < TUI_N_STYLES ? c->style : TUI_PLAIN;
			wchar_t text[2] = {(wchar_t)c->ch, 0};
			cchar_t cell;

			if (!c->ch) /* after a wide character */
				continue;
			if (setcchar(&cell, text, term.attr[style], term.pair[style], NULL) == OK)
				mvadd_wch(y, x, &cell);
		}
	refresh();
}

static int key_of_code(int code)
{
	static const struct {
		int code, key;
	} keys[] = {
		{KEY_UP, TUI_KEY_UP},         {KEY_DOWN, TUI_KEY_DOWN},
		{KEY_LEFT, TUI_KEY_LEFT},     {KEY_RIGHT, TUI_KEY_RIGHT},
		{KEY_PPAGE, TUI_KEY_PAGE_UP}, {KEY_NPAGE, TUI_KEY_PAGE_DOWN},
		{KEY_HOME, TUI_KEY_HOME},     {KEY_END, TUI_KEY_END},
		{KEY_ENTER, TUI_KEY_ENTER},   {KEY_BACKSPACE, TUI_KEY_BACKSPACE},
	};

	if (code >= KEY_F(1) && code <= KEY_F(12))
		return TUI_KEY_F(code - KEY_F0);
	for (size_t i = 0; i < GS_ARRAY_LEN(keys); i++)
		if (keys[i].code == code)
			return keys[i].key;
	return 0;
}

static int key_of_char(wint_t c)
{
	switch (c) {
	case '\r':
	case '\n':
		return TUI_KEY_ENTER;
	case 27:
		return TUI_KEY_ESCAPE;
	case 8:
	case 127:
		return TUI_KEY_BACKSPACE;
	case 12: /* Ctrl-L: all of it again */
		clearok(curscr, TRUE);
		return 0;
	default:
		return (int)c;
	}
}

static struct tui_event mouse_event(void)
{
	struct tui_event e = {.kind = TUI_EVENT_NONE};
	uint64_t now_ns = gs_clock_mono_ns();
	MEVENT m;

	if (getmouse(&m) != OK)
		return e;
	e = (struct tui_event){.kind = TUI_EVENT_MOUSE, .y = m.y, .x = m.x};
	if (m.bstate & BUTTON4_PRESSED)
		e.wheel = -1;
	else if (m.bstate & BUTTON5_PRESSED)
		e.wheel = 1;
	else if (!(m.bstate & (PRESSED | DOUBLED)))
		e.kind = TUI_EVENT_NONE;
	if (e.kind == TUI_EVENT_MOUSE && !e.wheel) {
		e.twice = (m.bstate & DOUBLED) || (m.y == term.pressed_y && m.x == term.pressed_x &&
						   now_ns - term.pressed_ns < TWICE_NS);
		term.pressed_ns = now_ns;
		term.pressed_y = m.y;
		term.pressed_x = m.x;
	}
	return e;
}

struct tui_event tui_term_next(void)
{
	for (;;) {
		struct tui_event e = {.kind = TUI_EVENT_KEY};
		wint_t c;
		int r = get_wch(&c);

		if (r == ERR)
			return (struct tui_event){.kind = TUI_EVENT_NONE};
		if (r == KEY_CODE_YES && c == KEY_RESIZE)
			return (struct tui_event){.kind = TUI_EVENT_RESIZE};
		if (r == KEY_CODE_YES && c == KEY_MOUSE) {
			e = mouse_event();
			if (e.kind == TUI_EVENT_NONE)
				continue;
			return e;
		}
		e.key = r == KEY_CODE_YES ? key_of_code((int)c) : key_of_char(c);
		if (!e.key && c == 12)
			return (struct tui_event){.kind = TUI_EVENT_RESIZE};
		if (e.key)
			return e;
	}
}
