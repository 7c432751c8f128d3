/* The library, opened once. */
#include "output/plot/plot_int.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>

static const struct {
	const char *name;
	size_t off;
} functions[] = {
#define F(name)                                                                                    \
	{                                                                                          \
		"cairo_" #name, offsetof(struct plot_cairo, name)                                  \
	}
	F(pdf_surface_create),
	F(svg_surface_create),
	F(image_surface_create),
	F(pdf_surface_create_for_stream),
	F(svg_surface_create_for_stream),
	F(surface_write_to_png_stream),
	F(surface_write_to_png),
	F(surface_finish),
	F(surface_status),
	F(surface_destroy),
	F(create),
	F(status),
	F(destroy),
	F(status_to_string),
	F(set_source_rgba),
	F(rectangle),
	F(move_to),
	F(line_to),
	F(close_path),
	F(fill),
	F(stroke),
	F(paint),
	F(clip),
	F(save),
	F(restore),
	F(scale),
	F(set_line_width),
	F(set_line_join),
	F(set_antialias),
	F(select_font_face),
	F(set_font_size),
	F(show_text),
	F(text_extents),
	F(show_page),
#undef F
};

static struct plot_cairo cairo;
static void *library;

static int open_locked(struct gs_err *err)
{
	void *opened;

	if (library)
		return 0;
	opened = dlopen("libcairo.so.2", RTLD_NOW | RTLD_LOCAL);
	if (!opened)
		return gs_err_set(
			err, -ENOPKG,
			"plots are drawn by cairo, which is not installed here: install libcairo2 (Debian, Ubuntu) or cairo (Fedora, RHEL)");
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *f = dlsym(opened, functions[i].name);

		if (!f)
			return gs_err_set(err, -ENOPKG, "the cairo of this machine lacks %s",
					  functions[i].name);
		*(void **)((char *)&cairo + functions[i].off) = f;
	}
	library = opened;
	return 0;
}

int plot_cairo_open(const struct plot_cairo **ret_cairo, struct gs_err *err)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* a head draws on threads */
	int r;

	pthread_mutex_lock(&lock);
	r = open_locked(err);
	pthread_mutex_unlock(&lock);
	*ret_cairo = &cairo;
	return r;
}

int gs_plot_check(struct gs_err *err)
{
	const struct plot_cairo *c;

	return plot_cairo_open(&c, err);
}
