/* What a node is called. */
#include "pipeline/flamegraph/flame_int.h"

#include <stdio.h>
#include <string.h>

#include "model/trace/account.h"

/* The part of a path that distinguishes files: what stands after the folder of packages, else the
 * last two names. */
static const char *short_path(const char *path)
{
	static const char *const roots[] = {"/site-packages/", "/dist-packages/"};
	const char *p = NULL;
	int slashes = 0;

	for (size_t i = 0; i < 2; i++) {
		const char *found = strstr(path, roots[i]);

		if (found)
			return found + strlen(roots[i]);
	}
	for (const char *q = path + strlen(path); q > path && slashes < 2; q--)
		if (q[-1] == '/') {
			p = q;
			slashes++;
		}
	return slashes == 2 ? p : path;
}

static const char *last_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

const char *gs_flame_frame_label(const struct gs_dict *dict, uint32_t id,
				 char out[GS_FLAME_LABEL_BYTES])
{
	const struct gs_rec_frame *f = gs_dict_frame(dict, id);
	const char *name = f ? gs_dict_string(dict, f->function_str) : "";
	const char *file = f ? gs_dict_string(dict, f->file_str) : "";

	if (!f)
		snprintf(out, GS_FLAME_LABEL_BYTES, "unknown code");
	else if (f->frame_kind == GS_FRAME_PYTHON && f->line)
		snprintf(out, GS_FLAME_LABEL_BYTES, "%.600s (%.300s:%u)", *name ? name : "?",
			 *file ? short_path(file) : "?", f->line);
	else if (f->frame_kind == GS_FRAME_PYTHON)
		snprintf(out, GS_FLAME_LABEL_BYTES, "%.600s (%.300s)", *name ? name : "?",
			 *file ? short_path(file) : "?");
	else if (*name)
		snprintf(out, GS_FLAME_LABEL_BYTES, "%.900s", name);
	else
		snprintf(out, GS_FLAME_LABEL_BYTES, "%.600s+0x%llx",
			 *file ? last_name(file) : "unknown", (unsigned long long)f->file_off);
	return out;
}

const char *gs_flame_label(const struct gs_flame *flame, uint32_t node,
			   char out[GS_FLAME_LABEL_BYTES])
{
	const struct gs_flame_node *n = &flame->tree.nodes[node];
	const struct gs_dict *dict = flame->tree.dict;
	const struct gs_rec_process *process;
	const struct gs_rec_thread *thread;
	const struct gs_rec_function *function;
	const char *name = "";

	switch (n->kind) {
	case GS_FLAME_ALL:
		snprintf(out, GS_FLAME_LABEL_BYTES, "all");
		break;
	case GS_FLAME_PROCESS:
		process = gs_dict_process(dict, n->ref);
		if (process)
			snprintf(out, GS_FLAME_LABEL_BYTES, "%.900s (%u)",
				 gs_dict_string(dict, process->comm_str), process->pid);
		else
			snprintf(out, GS_FLAME_LABEL_BYTES, "unknown process");
		break;
	case GS_FLAME_THREAD:
		thread = gs_dict_thread(dict, n->ref);
		if (thread)
			snprintf(out, GS_FLAME_LABEL_BYTES, "thread %.900s (%u)",
				 gs_dict_string(dict, thread->comm_str), thread->tid);
		else
			snprintf(out, GS_FLAME_LABEL_BYTES, "unknown thread");
		break;
	case GS_FLAME_WAIT:
		snprintf(out, GS_FLAME_LABEL_BYTES, "[waiting: %s]", gs_account_wait_name(n->ref));
		break;
	case GS_FLAME_PYTHON:
	case GS_FLAME_NATIVE:
		gs_flame_frame_label(dict, n->ref, out);
		break;
	default:
		function = gs_dict_function(dict, n->ref);
		if (function)
			name = gs_dict_string(dict, function->name_str);
		snprintf(out, GS_FLAME_LABEL_BYTES, "%.1000s", *name ? name : "unknown");
		break;
	}
	return out;
}
