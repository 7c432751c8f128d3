/* Files that are written while a trace runs or a recording is read. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "library/gpuscope/library_int.h"
#include "output/trace_export/export.h"
#include "pipeline/gpu_activity/gpu_activity.h"
#include "pipeline/recording/recording.h"

#define SYNC_MS 5000

static void take_span(void *ctx, const struct gs_activity_span *span)
{
	const struct output_files *files = ctx;

	for (size_t i = 0; i < files->n; i++)
		if (files->at[i].export)
			gs_export_take_span(files->at[i].export, span);
}

static int open_file(struct output_file *f, const char *path, bool with_recordings, bool whole,
		     struct gs_err *err)
{
	const struct gs_export_options eo = {.size = sizeof(eo), .when_whole = whole};
	const struct gs_recording_options ro = {.size = sizeof(ro), .sync_every_ms = SYNC_MS};
	const char *end = strrchr(path, '.');

	f->path = strdup(path);
	if (!f->path)
		return -ENOMEM;
	if (gs_export_is_stdout(path))
		return gs_err_set(err, -EINVAL, "outputs must be files; \"%s\" is not one", path);
	if (gs_export_knows(path))
		return gs_export_open(path, &eo, &f->export, err);
	if (with_recordings && end && strcmp(end, ".gst") == 0)
		return gs_recording_create(path, &ro, &f->record, err);
	return gs_err_set(err, -EINVAL,
			  "outputs must end in one of %s" GS_EXPORT_SUFFIXES ", not as %s",
			  with_recordings ? ".gst, " : "", path);
}

int output_files_open(struct output_files *files, const char *const *paths, size_t n,
		      bool with_recordings, bool whole, struct gs_aggregate *view,
		      struct gs_err *err)
{
	int r = 0;

	if (n > OUTPUTS_MAX)
		return gs_err_set(err, -EINVAL, "at most %d outputs", OUTPUTS_MAX);
	for (size_t i = 0; i < n && r == 0; i++) {
		struct output_file *f = &files->at[files->n++];

		r = paths[i] ? open_file(f, paths[i], with_recordings, whole, err) : -EINVAL;
		if (r == 0 && gs_export_shows_streams(paths[i]))
			gs_activity_set_sink(gs_aggregate_activity(view), take_span, files);
	}
	files->view = view;
	return r;
}

const struct gs_sink *output_file_sink(const struct output_file *f)
{
	return f->export ? gs_export_sink(f->export) : gs_recording_sink(f->record);
}

/* Work that is pending at the end, as of the time that the files know. */
static void report_pending(struct output_files *files)
{
	for (size_t i = 0; i < files->n; i++)
		if (files->at[i].export) {
			gs_activity_report_pending(gs_aggregate_activity(files->view),
						   gs_export_now_ns(files->at[i].export));
			return;
		}
}

int output_files_close(struct output_files *files, struct gs_err *err)
{
	int first = 0;

	report_pending(files);
	for (size_t i = 0; i < files->n; i++) {
		struct output_file *f = &files->at[i];
		struct gs_err why = {{0}};
		int r = 0;

		if (f->export) {
			gs_export_end(f->export);
			r = gs_export_close(&f->export, &why);
		} else if (f->record) {
			r = gs_recording_close(&f->record, &why);
		}
		if (r < 0 && first == 0)
			first = gs_err_set(err, r, "%s", gs_err_text(&why, r));
	}
	return first;
}

void output_files_abandon(struct output_files *files)
{
	for (size_t i = 0; i < files->n; i++) {
		struct output_file *f = &files->at[i];

		if (f->export)
			gs_export_abandon(&f->export);
		if (f->record)
			gs_recording_close(&f->record, NULL);
		free(f->path);
	}
	files->n = 0;
}
