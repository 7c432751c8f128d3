/* gpuscope report --plot: recorded samples as figures. */
#include <errno.h>
#include <string.h>

#include "commands/common/cli.h"
#include "commands/report/report_import.h"
#include "pipeline/recording/recording.h"
#include "pipeline/session_file/session_file.h"
#include "model/node/record.h"
#include "output/plot/plot.h"

static int add_journal(struct gs_plot *plot, const char *path, struct gs_recording_reader *reader,
		       struct gs_err *err)
{
	struct gs_node_decoder *decoder = gs_node_decoder_new();
	struct gs_node_snapshot *node = NULL;
	struct gs_recording_stats st;
	struct gs_rollup_mark mark = {0};
	struct gs_batch batch;
	int r = decoder ? 0 : -ENOMEM;

	while (r == 0 && (r = gs_recording_next(reader, &batch)) == 0) {
		gs_records_for_each (&batch, record) {
			(void)gs_rollup_read(record, &mark);
			r = gs_node_decode(decoder, record, &node);
			if (r == GS_NODE_WHOLE) {
				r = gs_plot_add(plot, node, &mark);
				gs_node_snapshot_free(&node);
				mark = (struct gs_rollup_mark){0};
			}
			if (r < 0)
				break;
		}
		/* Of a moment that goes on in the next batch its values are gone. */
		mark.n_values = 0;
	}
	gs_recording_stats(reader, &st);
	if (st.cut_bytes || st.skipped_bytes || st.n_skipped_frames)
		gs_cli_print_message(
			"%s: damaged or cut off: %llu frames and %llu bytes could not be read",
			path, (unsigned long long)st.n_skipped_frames,
			(unsigned long long)(st.cut_bytes + st.skipped_bytes));
	if (decoder && gs_node_decoder_torn(decoder))
		gs_cli_print_message("%s: %llu samples were incomplete and are left out", path,
				     (unsigned long long)gs_node_decoder_torn(decoder));
	gs_node_decoder_free(&decoder);
	return r < 0 ? gs_err_set(err, r, "cannot read %s: %s", path, strerror(-r)) : 0;
}

static int add_snapshot(void *ctx, const struct gs_node_snapshot *snapshot)
{
	return gs_plot_add(ctx, snapshot, NULL);
}

static int add_json(struct gs_plot *plot, const char *path, struct gs_err *err)
{
	GS_FCLOSE FILE *f = fopen(path, "re");
	struct gs_session_file_stats stats;
	int r;

	if (!f)
		return gs_err_set(err, -errno, "cannot open %s: %s", path, strerror(errno));
	r = gs_session_file_read(f, add_snapshot, plot, &stats, err);
	if (r < 0)
		return gs_err_prefix(err, r, "%s", path);
	cmd_report_swapped(path, &stats);
	return 0;
}

static int add_file(struct gs_plot *plot, const char *path, struct gs_err *err)
{
	struct gs_recording_reader *reader = NULL;
	const char *dot = strrchr(path, '.');
	int r;

	if (dot && strcmp(dot, ".json") == 0)
		return add_json(plot, path, err);
	r = gs_recording_open(path, &reader, err);
	if (r == 0)
		r = add_journal(plot, path, reader, err);
	gs_recording_reader_close(&reader);
	return r;
}

int gs_cmd_plot(char **paths, size_t n, const char *output, unsigned panels)
{
	struct gs_plot_options o = {.size = sizeof(o), .panels = panels};
	struct gs_plot *plot = gs_plot_new(&o);
	struct gs_err err = {{0}};
	struct gs_plot_stats st;
	int r = plot ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < n; i++)
		r = add_file(plot, paths[i], &err);
	if (r == 0)
		r = gs_plot_write(plot, output, &err);
	if (r < 0) {
		gs_cli_print_message("%s", gs_err_text(&err, r));
	} else {
		gs_plot_stats(plot, &st);
		gs_cli_print_message("%s: %llu sample%s of %llu GPU%s, %llu gap%s", output,
				     (unsigned long long)st.n_samples, st.n_samples == 1 ? "" : "s",
				     (unsigned long long)st.n_devices, st.n_devices == 1 ? "" : "s",
				     (unsigned long long)st.n_gaps, st.n_gaps == 1 ? "" : "s");
		if (st.n_left_out)
			gs_cli_print_message(
				"%llu samples were left out: their clocks are too far apart",
				(unsigned long long)st.n_left_out);
	}
	gs_plot_free(&plot);
	return r == 0 ? GS_EXIT_DONE : r == -ENOPKG ? GS_EXIT_NOT_PERMITTED : GS_EXIT_FAILED;
}
