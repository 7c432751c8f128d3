/* Frame by frame, since a session of days has more of them than memory has room. */
#include <errno.h>
#include <string.h>

#include "core/base/mem.h"
#include "pipeline/session_file/session_file_int.h"

#define FRAMES_KEY "frames"
#define KEYS_MAX   8 /* that may come before one of a session */

static int next_char(FILE *file)
{
	int c;

	do
		c = getc(file);
	while (c == ' ' || c == '\t' || c == '\n' || c == '\r');
	return c;
}

/* The rest of a text whose first quote has been read; as much of it as has room. */
static int rest_of_text(FILE *file, char *out, size_t bytes)
{
	size_t n = 0;
	int c;

	while ((c = getc(file)) != '"') {
		if (c == '\\')
			c = getc(file);
		if (c == EOF)
			return -EBADMSG;
		if (n + 1 < bytes)
			out[n++] = (char)c;
	}
	if (bytes)
		out[n] = 0;
	return 0;
}

/* A value that is not wanted, whose first letter is c. */
static int skip_value(FILE *file, int c)
{
	int depth = 0;

	for (;; c = getc(file)) {
		if (c == EOF || (c == '"' && rest_of_text(file, NULL, 0) < 0))
			return -EBADMSG;
		depth += (c == '{' || c == '[') - (c == '}' || c == ']');
		if (depth == 0 && c != '"' && strchr("}],: \t\r\n", c) == NULL)
			continue; /* within a number or a word */
		if (depth < 0 || (depth == 0 && c == ',')) {
			ungetc(c, file); /* of what is around it */
			return 0;
		}
		if (depth == 0)
			return 0;
	}
}

static int read_frames(struct session_file_frames *frames, FILE *file, struct gs_err *err)
{
	size_t k = 1;
	int c = next_char(file);

	for (; c != ']'; c = next_char(file), k++) {
		json_error_t je = {.text = ""};
		json_t *frame = NULL;
		int r = -EBADMSG;

		if (k > 1 && c == ',')
			c = next_char(file);
		else if (k > 1)
			c = EOF;
		if (c == '{' && ungetc(c, file) != EOF)
			frame = json_loadf(file, JSON_DISABLE_EOF_CHECK, &je);
		if (frame)
			r = session_file_take_frame(frames, frame);
		json_decref(frame);
		if (r == -EBADMSG && !frame)
			return gs_err_set(err, r, "frame %zu cannot be read%s%s", k,
					  je.text[0] ? ": " : "", je.text);
		if (r == -EBADMSG)
			return gs_err_set(
				err, r,
				"frame %zu has no time, or GPUs that are not \"host:index:name\"",
				k);
		if (r < 0)
			return gs_err_set(err, r, "%s", strerror(-r));
	}
	return 0;
}

/* The list, or what one version of gswarm-profiler wrote: a list of that list alone. */
static int read_list(struct session_file_frames *frames, FILE *file, struct gs_err *err)
{
	int c = next_char(file), r;

	if (c != '[') {
		ungetc(c, file);
		return read_frames(frames, file, err);
	}
	r = read_frames(frames, file, err);
	if (r == 0 && next_char(file) != ']')
		r = gs_err_set(err, -EBADMSG, "there is more than one list of frames");
	return r;
}

/* The keys around the frames. */
static int read_keys(struct session_file_frames *frames, FILE *file, struct gs_err *err)
{
	bool found = false;
	char key[32];
	int c = next_char(file), r = c == '{' ? 0 : -EBADMSG;

	for (c = r == 0 ? next_char(file) : EOF; r == 0 && c != '}'; c = next_char(file)) {
		if (c == ',')
			c = next_char(file);
		if (c != '"' || rest_of_text(file, key, sizeof(key)) < 0 || next_char(file) != ':')
			return gs_err_set(err, -EBADMSG, "it is not JSON, or it is cut off");
		c = next_char(file);
		if (strcmp(key, FRAMES_KEY) != 0) {
			r = skip_value(file, c);
		} else if (c == '[') {
			found = true;
			r = read_list(frames, file, err);
			if (r < 0)
				return r;
		} else {
			r = -EBADMSG;
		}
	}
	if (r < 0 && found)
		return gs_err_set(err, -EBADMSG, "it is cut off after its frames");
	if (r < 0 || !found)
		return gs_err_set(err, -EBADMSG, "no frames: this is not the JSON of a session");
	return 0;
}

int gs_session_file_read(FILE *file, gs_session_file_fn fn, void *ctx,
			 struct gs_session_file_stats *ret_stats, struct gs_err *err)
{
	struct session_file_frames frames = {.fn = fn, .ctx = ctx, .stats = ret_stats};
	int r;

	*ret_stats = (struct gs_session_file_stats){0};
	r = read_keys(&frames, file, err);
	session_file_fini(&frames);
	return r;
}

/* Of ours the session's name is one of the first; gswarm-profiler's frames come first or last. */
static bool is_session_key(const char *key)
{
	static const char *const keys[] = {FRAMES_KEY, "session_name", "summary_by_device",
					   "summary_by_client", "request_time_info"};

	for (size_t i = 0; i < GS_ARRAY_LEN(keys); i++)
		if (strcmp(key, keys[i]) == 0)
			return true;
	return false;
}

bool gs_session_file_is_one(FILE *file)
{
	bool known = false, goes_on = fseek(file, 0, SEEK_SET) == 0 && next_char(file) == '{';
	char key[32];

	for (int n = 0; goes_on && !known && n < KEYS_MAX; n++) {
		int c = next_char(file);

		if (n && c == ',')
			c = next_char(file);
		if (c != '"' || rest_of_text(file, key, sizeof(key)) < 0 || next_char(file) != ':')
			break;
		known = is_session_key(key);
		c = next_char(file);
		/* Those of others that are arrays or objects may be long. */
		goes_on = c != '[' && c != '{' && skip_value(file, c) == 0;
	}
	rewind(file);
	return known;
}
