/*
 * Lines that scroll: the columns of `nvidia-smi dmon` and `nvidia-smi pmon` under their names, so
 * that scripts made for those read these. What is not there is "-".
 */
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "output/node_report/gpu_int.h"

/* A column is the value of a field times scale, or the share of the time since the snapshot before
 * in which a counter of seconds ran. */
static const struct {
	char group;
	unsigned width;
	const char *name, *unit;
	enum gs_gpu_field field;
	double scale;
	enum { NOW, SHARE, ANY } how;
} columns[] = {
	{'p', 6, "pwr", "W", GS_GPU_POWER, 1, NOW},
	{'p', 6, "gtemp", "C", GS_GPU_TEMP_GPU, 1, NOW},
	{'p', 6, "mtemp", "C", GS_GPU_TEMP_MEM, 1, NOW},
	{'u', 6, "sm", "%", GS_GPU_UTIL, 100, NOW},
	{'u', 6, "mem", "%", GS_GPU_MEM_UTIL, 100, NOW},
	{'u', 6, "enc", "%", GS_GPU_ENC_UTIL, 100, NOW},
	{'u', 6, "dec", "%", GS_GPU_DEC_UTIL, 100, NOW},
	{'u', 6, "jpg", "%", GS_GPU_JPG_UTIL, 100, NOW},
	{'u', 6, "ofa", "%", GS_GPU_OFA_UTIL, 100, NOW},
	{'c', 6, "mclk", "MHz", GS_GPU_CLOCK_MEM, 1e-6, NOW},
	{'c', 6, "pclk", "MHz", GS_GPU_CLOCK_GRAPHICS, 1e-6, NOW},
	{'v', 6, "pviol", "%", GS_GPU_THROTTLE_SW_POWER, 100, SHARE},
	{'v', 6, "tviol", "bool", GS_GPU_THROTTLE_SW_THERMAL, 1, ANY},
	{'m', 9, "fb", "MB", GS_GPU_MEM_USED, 1.0 / 1048576, NOW},
	{'m', 9, "bar1", "MB", GS_GPU_BAR1_USED, 1.0 / 1048576, NOW},
	{'e', 6, "sbecc", "errs", GS_GPU_ECC_NOW_CORRECTED, 1, NOW},
	{'e', 6, "dbecc", "errs", GS_GPU_ECC_NOW_UNCORRECTED, 1, NOW},
	{'e', 6, "pci", "errs", GS_GPU_PCIE_REPLAYS, 1, NOW},
	{'t', 8, "rxpci", "MB/s", GS_GPU_PCIE_RX_BPS, 1.0 / 1048576, NOW},
	{'t', 8, "txpci", "MB/s", GS_GPU_PCIE_TX_BPS, 1.0 / 1048576, NOW},
};

/* A number wider than its column moves the line; it is neither cut nor glued to the one before. */
static void put_cell(struct gs_page *page, enum gs_ink ink, const char *text, unsigned width)
{
	size_t n = strlen(text) + 1;

	gs_page_right(page, ink, text, n > width ? n : width);
}

static bool is_shown(const struct gs_report_gpu_style *style, size_t i)
{
	return strchr(style->dmon && *style->dmon ? style->dmon : "puc", columns[i].group) != NULL;
}

static const struct gs_gpu_sample *sample_before(const struct gs_report_gpu_style *style,
						 const struct gs_gpu_info *info)
{
	for (unsigned i = 0; style->before && i < style->before->n_gpus; i++)
		if (strcmp(style->before->info[i].uuid, info->uuid) == 0)
			return &style->before->sample[i];
	return NULL;
}

/* The share of the time since the snapshot before in which a counter of seconds ran. */
static bool share_between(const struct gs_gpu_sample *v, const struct gs_gpu_sample *before,
			  enum gs_gpu_field f, double *ret)
{
	if (!before || !gs_gpu_has(v, f) || !gs_gpu_has(before, f) || v->time_ns <= before->time_ns)
		return false;
	*ret = (v->value[f] - before->value[f]) * 1e9 / (double)(v->time_ns - before->time_ns);
	/* The counter is not read at the very moment of the sample. */
	*ret = *ret > 1 ? 1 : *ret;
	return true;
}

static void put_value(struct gs_page *page, size_t i, const struct gs_gpu_sample *v,
		      const struct gs_gpu_sample *before)
{
	enum gs_gpu_field f = columns[i].field;
	char text[32] = "-";
	double number = v->value[f], more = 0;
	bool known = gs_gpu_has(v, f);

	if (columns[i].how != NOW)
		known = share_between(v, before, f, &number);
	if (columns[i].how == ANY) {
		/* By the driver or by the hardware itself. */
		bool hardware = share_between(v, before, GS_GPU_THROTTLE_HW_THERMAL, &more);

		number = (known && number > 0) || (hardware && more > 0);
		known |= hardware;
	}
	if (known)
		snprintf(text, sizeof(text), "%.0f", number * columns[i].scale);
	put_cell(page, GS_INK_PLAIN, text, columns[i].width);
}

static void put_index(struct gs_page *page, enum gs_ink ink, const struct gs_gpu_info *info)
{
	char text[GS_GPU_NUMBER_BYTES];

	gs_page_right(page, ink, gs_gpu_number(text, info), 5);
}

static void write_dmon(struct gs_page *page, const struct gs_gpu_snapshot *s,
		       const struct gs_report_gpu_style *style)
{
	for (unsigned line = 0; style->head && line < 2; line++) {
		gs_page_left(page, GS_INK_BOLD, line ? "# Idx" : "# gpu", 5, GS_CUT_END);
		for (size_t i = 0; i < GS_ARRAY_LEN(columns); i++)
			if (is_shown(style, i))
				gs_page_right(page, GS_INK_BOLD,
					      line ? columns[i].unit : columns[i].name,
					      columns[i].width);
		gs_page_line(page);
	}
	for (unsigned k = 0; k < s->n_gpus; k++) {
		const struct gs_gpu_sample *before = sample_before(style, &s->info[k]);

		put_index(page, GS_INK_PLAIN, &s->info[k]);
		for (size_t i = 0; i < GS_ARRAY_LEN(columns); i++)
			if (is_shown(style, i))
				put_value(page, i, &s->sample[k], before);
		gs_page_line(page);
	}
}

static void write_pmon(struct gs_page *page, const struct gs_gpu_snapshot *s,
		       const struct gs_report_gpu_style *style)
{
	static const char *const names[] = {"pid", "type", "sm",  "mem", "enc",
					    "dec", "jpg",  "ofa", "fb"};
	static const char *const units[] = {"#", "C/G", "%", "%", "%", "%", "%", "%", "MB"};
	static const unsigned widths[] = {9, 6, 6, 6, 6, 6, 6, 6, 8};

	for (unsigned line = 0; style->head && line < 2; line++) {
		gs_page_left(page, GS_INK_BOLD, line ? "# Idx" : "# gpu", 5, GS_CUT_END);
		for (size_t i = 0; i < GS_ARRAY_LEN(names); i++)
			gs_page_right(page, GS_INK_BOLD, line ? units[i] : names[i], widths[i]);
		gs_page_gap(page, 2);
		gs_page_rest(page, GS_INK_BOLD, line ? "name" : "command", GS_CUT_END);
		gs_page_line(page);
	}
	for (unsigned k = 0, i = 0; k < s->n_gpus; k++) {
		unsigned of_gpu = 0;

		for (; i < s->n_processes && s->process[i].gpu == k; i++, of_gpu++) {
			const struct gs_gpu_process *p = &s->process[i];
			const double shares[] = {p->sm_ratio,  p->mem_ratio, p->enc_ratio,
						 p->dec_ratio, p->jpg_ratio, p->ofa_ratio};
			char text[32];

			put_index(page, GS_INK_PLAIN, &s->info[k]);
			snprintf(text, sizeof(text), "%u", p->pid);
			put_cell(page, GS_INK_PLAIN, text, widths[0]);
			gs_page_right(page, GS_INK_PLAIN,
				      p->kind & GS_GPU_PROCESS_MPS       ? "M+C"
				      : p->kind == 3                     ? "C+G"
				      : p->kind & GS_GPU_PROCESS_COMPUTE ? "C"
									 : "G",
				      widths[1]);
			for (size_t j = 0; j < GS_ARRAY_LEN(shares); j++) {
				snprintf(text, sizeof(text), "%.0f", shares[j] * 100);
				put_cell(page, GS_INK_PLAIN, shares[j] < 0 ? "-" : text,
					 widths[j + 2]);
			}
			snprintf(text, sizeof(text), "%lld", (long long)(p->used_bytes >> 20));
			put_cell(page, GS_INK_PLAIN, p->used_bytes < 0 ? "-" : text, widths[8]);
			gs_page_gap(page, 2);
			gs_page_rest(page, GS_INK_PLAIN, p->comm[0] ? p->comm : "-", GS_CUT_END);
			gs_page_line(page);
		}
		/* A GPU without a process has its line too, as with pmon. */
		if (!of_gpu && !s->info[k].mig_enabled) {
			put_index(page, GS_INK_DIM, &s->info[k]);
			for (size_t j = 0; j < GS_ARRAY_LEN(names); j++)
				gs_page_right(page, GS_INK_DIM, "-", widths[j]);
			gs_page_gap(page, 2);
			gs_page_rest(page, GS_INK_DIM, "-", GS_CUT_END);
			gs_page_line(page);
		}
	}
}

void gs_report_gpu_scroll(struct gs_page *page, const struct gs_gpu_snapshot *s,
			  const struct gs_report_gpu_style *style)
{
	if (style->view == GS_GPU_VIEW_DMON)
		write_dmon(page, s, style);
	else
		write_pmon(page, s, style);
}
