/*
 * What the screen is made of: the snapshot that is shown, its history, and what the user chose. One
 * struct, changed by ui.c (a new snapshot) and input.c (a key), read by the layout.
 */
#ifndef GS_OUTPUT_TUI_UI_H
#define GS_OUTPUT_TUI_UI_H

#include "analysis/gpu_health/gpu_health.h"
#include "output/tui/history.h"
#include "output/tui/jobs.h"
#include "output/screen/screen.h"
#include "output/tui/table.h"
#include "output/tui/tui.h"

enum tui_mode {
	TUI_MAIN,
	TUI_HELP,
	TUI_SETUP,
	TUI_DETAIL,
	TUI_JOB_DETAIL,
	TUI_FINDINGS,
	TUI_FILTER,
	TUI_SIGNAL,
	TUI_CONFIRM
};

enum tui_gpu_order { TUI_WORST_FIRST, TUI_BY_INDEX, TUI_N_GPU_ORDERS };

#define TUI_N_XIDS 32

struct tui_xid { /* the last event of a GPU. Fields as in struct gs_gpu_event */
	char pci_bus_id[32];
	uint32_t xid;
	uint64_t time_ns;
	char text[96];
};

struct tui_health {                          /* why a GPU comes first */
	int level;                           /* 0 nothing, the worst the highest */
	enum tui_style style;                /* of its text */
	struct gs_gpu_health is;             /* what holds */
	char text[GS_GPU_HEALTH_TEXT_BYTES]; /* cause and figures; "" nothing is wrong */
};

struct tui_ui {
	struct gs_tui_options options;      /* as the user changed them */
	const struct gs_tui_source *source; /* borrowed; what can be done */
	struct gs_node_snapshot *node;      /* owned; NULL: none yet */
	struct tui_history history;         /* of GPUs, processes and the machine */
	struct tui_xid xids[TUI_N_XIDS];    /* the n-th at n % TUI_N_XIDS */
	size_t n_xids;                      /* so far; the newest are kept */
	struct tui_health *health;          /* owned; of each GPU */
	uint32_t *gpu_order;                /* owned; the GPUs as they are shown */

	struct gs_tui_finding findings[GS_TUI_FINDINGS_MAX]; /* that hold, the newest first */
	size_t n_findings;

	enum tui_mode mode;       /* which screen is shown */
	bool paused, ended;       /* nothing new is taken; nothing more comes */
	bool is_apart;            /* the next node snapshot does not follow the one shown */
	enum tui_gpu_order order; /* of gpu_order */
	int gpu_top;              /* first GPU on the screen */
	bool print_all;           /* no terminal: every row is shown, no keys */

	struct tui_table table; /* processes */
	bool shows_jobs;        /* in place of the processes */
	bool wants_jobs;        /* they are read */
	struct tui_jobs jobs;   /* likewise, where shows_jobs */

	uint32_t detail_pid; /* of the detail screen */
	uint64_t detail_start_ns;
	struct gs_buf environment; /* of detail_pid, the interesting part, one text a line */
	uint32_t traffic_pid;      /* whose TCP is counted; 0: none's */
	bool has_traffic;          /* of that one there is */
	struct gs_tui_traffic traffic;
	int detail_top; /* first line of the help or detail screen */

	int setup_at; /* line of the setup screen */

	int signal_at;       /* line of the list of signals */
	uint32_t signal_pid; /* to whom */
	uint64_t signal_start_ns;
	char signal_name[64]; /* of the process */

	char message[192];            /* at the bottom, until the next key; "" none */
	enum tui_style message_style; /* its style */

	size_t position, length; /* of a recording */
};

struct tui_signal {
	int number;              /* as kill(2) takes it */
	const char *name, *what; /* "TERM"; in words */
};
extern const struct tui_signal tui_signals[];
extern const int tui_n_signals;

/* source is borrowed, options are copied. Always 0. */
int tui_ui_init(struct tui_ui *ui, const struct gs_tui_source *source,
		const struct gs_tui_options *options);
void tui_ui_fini(struct tui_ui *ui);

/* A new snapshot, which becomes the ui's. 0 or -ENOMEM. */
int tui_ui_show(struct tui_ui *ui, struct gs_node_snapshot *node);

/* The rows of both tables, by what was chosen. -ENOMEM. */
int tui_ui_fill(struct tui_ui *ui);

/* What was counted of the process in detail. */
void tui_note_traffic(struct tui_ui *ui);

/* What holds at the time of the snapshot. */
void tui_note_findings(struct tui_ui *ui);

/* The GPUs in the order that was chosen. */
void tui_ui_sort_gpus(struct tui_ui *ui);

/* History begins again: another part of a recording follows. */
void tui_ui_forget(struct tui_ui *ui);

/* The message at the bottom. */
void tui_ui_show_message(struct tui_ui *ui, enum tui_style style, const char *fmt, ...)
	GS_PRINTF(3, 4);

/* Keys of struct tui_series. */
uint64_t tui_key_of_gpu(const struct gs_gpu_info *info);
uint64_t tui_key_of_process(uint32_t pid, uint64_t start_ns, uint32_t gpu);
#define TUI_KEY_OF_HOST 1

#endif
