/*
 * GPUs and processes as flat rows of named cells: the CSV of gpuscope's own names, and the fields
 * of eACGM (GPUSampler, NVMLSampler) and gswarm (GPUMetric) under their names and in their units.
 * What those tools reported wrongly is right here: a value that a GPU does not have leaves its cell
 * empty and the rest of the row as it is, and received bytes are those that the GPU received.
 */
#include <math.h>
#include <stdio.h>

#include "output/node_report/gpu_int.h"

static struct gs_report_gpu_cell text_cell(const char *name, const char *t)
{
	return (struct gs_report_gpu_cell){.name = name, .text = t && *t ? t : NULL};
}

static struct gs_report_gpu_cell number_cell(const char *name, double v)
{
	return (struct gs_report_gpu_cell){.name = name, .number = true, .value = v};
}

static struct gs_report_gpu_cell number_if(const char *name, double v, bool known)
{
	return known ? number_cell(name, v) : text_cell(name, NULL);
}

static struct gs_report_gpu_cell value_cell(const char *name, const struct gs_gpu_sample *s,
					    enum gs_gpu_field field, double scale)
{
	double v = s->value[field] * scale;

	/* 0.14 times 100 is 14. */
	return number_if(name, scale > 1 ? round(v * 1e6) / 1e6 : v, gs_gpu_has(s, field));
}

static unsigned own_device(const struct gs_gpu_snapshot *s, unsigned gpu,
			   const struct gs_report_gpu_style *style, struct gs_report_gpu_cell *c,
			   char texts[][32])
{
	const struct gs_gpu_info *info = &s->info[gpu];
	const struct gs_gpu_sample *v = &s->sample[gpu];
	unsigned n = 0, fields = style->n_fields ? style->n_fields : GS_GPU_FIELD_COUNT;

	snprintf(texts[0], 32, "%lld.%03u", (long long)(s->wall_ns / 1000000000),
		 (unsigned)(s->wall_ns % 1000000000 / 1000000));
	c[n++] = text_cell("unix_seconds", texts[0]);
	c[n++] = number_cell("gpu", info->index);
	c[n++] = text_cell("uuid", info->uuid);
	c[n++] = text_cell("pci_bus_id", info->pci_bus_id);
	c[n++] = text_cell("name", info->name);
	c[n++] = number_if("gpu_instance", info->gpu_instance, info->gpu_instance >= 0);
	c[n++] = text_cell("mig_profile", info->mig_profile);
	c[n++] = number_cell("lost", v->lost);
	for (unsigned i = 0; i < fields; i++) {
		unsigned field = style->n_fields ? (unsigned)style->fields[i] : i;

		c[n++] = value_cell(gs_gpu_field_info(field)->key, v, field, 1);
	}
	return n;
}

/* eACGM, sampler/gpusampler.py: percent, bytes, degrees, watts. */
static unsigned eacgm_device(const struct gs_gpu_snapshot *s, unsigned gpu,
			     struct gs_report_gpu_cell *c)
{
	const struct gs_gpu_sample *v = &s->sample[gpu];
	unsigned n = 0;

	c[n++] = number_cell("gpu", s->info[gpu].index);
	c[n++] = text_cell("name", s->info[gpu].name);
	c[n++] = value_cell("sm", v, GS_GPU_UTIL, 100);
	c[n++] = value_cell("totMem", v, GS_GPU_MEM_TOTAL, 1);
	c[n++] = value_cell("usedMem", v, GS_GPU_MEM_USED, 1);
	c[n++] = value_cell("enc", v, GS_GPU_ENC_UTIL, 100);
	c[n++] = value_cell("dec", v, GS_GPU_DEC_UTIL, 100);
	c[n++] = value_cell("tmp", v, GS_GPU_TEMP_GPU, 1);
	c[n++] = value_cell("fan", v, GS_GPU_FAN, 100);
	c[n++] = value_cell("usedPower", v, GS_GPU_POWER, 1);
	c[n++] = value_cell("totPower", v, GS_GPU_POWER_LIMIT, 1);
	return n;
}

/* gswarm, GPUMetric: shares of 1; what it calls DRAM bandwidth is that of PCIe. 10^9 bytes a
 * second. */
static unsigned gswarm_device(const struct gs_gpu_snapshot *s, unsigned gpu,
			      struct gs_report_gpu_cell *c)
{
	const struct gs_gpu_sample *v = &s->sample[gpu];
	double memory = gs_gpu_memory_ratio(v);
	unsigned n = 0;

	c[n++] = number_cell("physical_idx", s->info[gpu].index);
	c[n++] = text_cell("name", s->info[gpu].name);
	c[n++] = value_cell("gpu_util", v, GS_GPU_UTIL, 1);
	c[n++] = number_if("mem_util", memory, !isnan(memory));
	c[n++] = value_cell("dram_bw_gbps_rx", v, GS_GPU_PCIE_RX_BPS, 1e-9);
	c[n++] = value_cell("dram_bw_gbps_tx", v, GS_GPU_PCIE_TX_BPS, 1e-9);
	c[n++] = value_cell("nvlink_bw_gbps_rx", v, GS_GPU_NVLINK_RX_BPS, 1e-9);
	c[n++] = value_cell("nvlink_bw_gbps_tx", v, GS_GPU_NVLINK_TX_BPS, 1e-9);
	/* The extra metrics that gswarm takes by the names of nvitop's methods, in its units. */
	c[n++] = value_cell("gpu_clock", v, GS_GPU_CLOCK_GRAPHICS, 1e-6);
	c[n++] = value_cell("sm_clock", v, GS_GPU_CLOCK_SM, 1e-6);
	c[n++] = value_cell("memory_clock", v, GS_GPU_CLOCK_MEM, 1e-6);
	c[n++] = value_cell("temperature", v, GS_GPU_TEMP_GPU, 1);
	c[n++] = value_cell("power_draw", v, GS_GPU_POWER, 1000);
	return n;
}

unsigned gs_report_gpu_row_device(const struct gs_gpu_snapshot *s, unsigned gpu,
				  const struct gs_report_gpu_style *style,
				  struct gs_report_gpu_cell *cells, char texts[][32])
{
	if (style->view == GS_GPU_VIEW_EACGM)
		return eacgm_device(s, gpu, cells);
	if (style->view == GS_GPU_VIEW_GSWARM)
		return gswarm_device(s, gpu, cells);
	return own_device(s, gpu, style, cells, texts);
}

static const char *kind_text(uint32_t kind)
{
	static const char *const names[] = {"", "C", "G", "C+G", "M", "M+C", "M+G", "M+C+G"};

	return names[kind & 7];
}

unsigned gs_report_gpu_row_process(const struct gs_gpu_snapshot *s, unsigned process,
				   const struct gs_report_gpu_style *style,
				   struct gs_report_gpu_cell *c, char texts[][32])
{
	const struct gs_gpu_process *p = &s->process[process];
	const struct gs_gpu_info *info = &s->info[p->gpu];
	unsigned n = 0;

	if (style->view == GS_GPU_VIEW_EACGM) {
		/* eACGM, sampler/nvmlsampler.py. Its task is always None; here it is the name. */
		c[n++] = text_cell("task", p->comm);
		c[n++] = number_cell("pid", p->pid);
		c[n++] = number_cell("gpu", info->index);
		c[n++] = number_cell("timestamp", floor((double)s->wall_ns / 1000));
		c[n++] = number_if("sm", round(p->sm_ratio * 100), p->sm_ratio >= 0);
		c[n++] = number_if("mem", round(p->mem_ratio * 100), p->mem_ratio >= 0);
		c[n++] = number_if("enc", round(p->enc_ratio * 100), p->enc_ratio >= 0);
		c[n++] = number_if("dec", round(p->dec_ratio * 100), p->dec_ratio >= 0);
		return n;
	}
	snprintf(texts[0], 32, "%lld.%03u", (long long)(s->wall_ns / 1000000000),
		 (unsigned)(s->wall_ns % 1000000000 / 1000000));
	c[n++] = text_cell("unix_seconds", texts[0]);
	c[n++] = number_cell("gpu", info->index);
	c[n++] = text_cell("uuid", info->uuid);
	c[n++] = number_cell("pid", p->pid);
	c[n++] = text_cell("type", kind_text(p->kind));
	c[n++] = text_cell("user", p->user);
	c[n++] = number_if("gpu_memory_bytes", (double)p->used_bytes, p->used_bytes >= 0);
	c[n++] = number_if("sm_ratio", p->sm_ratio, p->sm_ratio >= 0);
	c[n++] = number_if("memory_ratio", p->mem_ratio, p->mem_ratio >= 0);
	c[n++] = number_if("encoder_ratio", p->enc_ratio, p->enc_ratio >= 0);
	c[n++] = number_if("decoder_ratio", p->dec_ratio, p->dec_ratio >= 0);
	c[n++] = number_if("jpeg_ratio", p->jpg_ratio, p->jpg_ratio >= 0);
	c[n++] = number_if("ofa_ratio", p->ofa_ratio, p->ofa_ratio >= 0);
	c[n++] = number_cell("ended", p->ended);
	c[n++] = text_cell("container", p->container);
	c[n++] = text_cell("job", p->job);
	c[n++] = text_cell("comm", p->comm);
	c[n++] = text_cell("command", p->cmdline);
	return n;
}
