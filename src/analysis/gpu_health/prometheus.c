/*
 * packaging/prometheus/alerts.yml out of the table of conditions, and the rules about what is not
 * one GPU. The file is kept in the repository; tests/unit/gpu_health compares it with this.
 */
#include <errno.h>
#include <string.h>

#include "analysis/gpu_health/gpu_health.h"
#include "core/base/mem.h"

struct health_rule {
	const char *alert, *expression, *hold, *severity, *summary, *description;
};

static const struct health_rule rules_before[] = {
	{"GpuscopeAgentDown", "up{job=\"gpuscope\"} == 0", "5m", "warning",
	 "No gpuscope agent answers on {{ $labels.instance }}",
	 "On the node: systemctl status gpuscope-agent."},
	{"GpuDriverNotOk", "gpuscope_driver_state{state=~\"no_driver|hung|failed\"} == 1", "5m",
	 "critical", "The GPU driver of {{ $labels.instance }} is {{ $labels.state }}",
	 "hung: a driver call does not return (dmesg, NVRM); no_driver: module not loaded, or another version than the library."},
};

static const struct health_rule rules_after[] = {
	{"GpuNvlinkDown",
	 "gpuscope_gpu_nvlink_active_links < max_over_time(gpuscope_gpu_nvlink_active_links[1d])",
	 "15m", "warning", "GPU {{ $labels.gpu }} of {{ $labels.instance }} has lost an NVLink",
	 "{{ $value }} are up; nvidia-smi nvlink -s shows which; look for XID 74."},
	{"GpuValuesOld", "time() - gpuscope_gpu_sample_timestamp_seconds > 120", "5m", "warning",
	 "GPU {{ $labels.gpu }} of {{ $labels.instance }} was not read for {{ $value | humanizeDuration }}",
	 "The agent runs, but the driver does not answer or was released (gpuscope agent ctl status)."},
	{"GpuscopeSamplesMissed",
	 "sum by (cluster, instance) (rate(gpuscope_agent_samples_missed_total[15m])) > 0.05",
	 "15m", "info", "gpuscope on {{ $labels.instance }} misses samples",
	 "The machine is overloaded, or sampling.interval too short."},
};

static const struct {
	enum gs_gpu_condition condition;
	const char *alert, *expression, *hold, *summary;
} gpu_rules[] = {
#define ROW(id, alert, expression, hold, summary)                                                  \
	{GS_GPU_CONDITION_##id, alert, expression, hold, summary},
	GS_GPU_ALERTS(ROW)
#undef ROW
};

/* Expressions have double quotes and no single ones; texts the reverse. */
static void health_write_rule(FILE *out, const struct health_rule *r)
{
	fprintf(out, "      - alert: %s\n        expr: '%s'\n", r->alert, r->expression);
	if (r->hold[0])
		fprintf(out, "        for: %s\n", r->hold);
	fprintf(out,
		"        labels: {severity: %s}\n"
		"        annotations:\n"
		"          summary: \"%s\"\n"
		"          description: \"%s\"\n",
		r->severity, r->summary, r->description);
}

int gs_gpu_health_write_rules(FILE *out)
{
	fputs("# Rules for what gpuscope agent serves: what to do stands in each description. Scrape the agent with\n"
	      "# job_name: gpuscope. Generated from src/analysis/gpu_health/condition.h, do not edit: after a change there run\n"
	      "# `GS_GOLDEN_UPDATE=1 meson test -C build gpu_health/rules`. Checked by `promtool check rules` and\n"
	      "# tests/e2e/alerts_test.yml.\n"
	      "groups:\n"
	      "  - name: gpuscope\n"
	      "    rules:\n",
	      out);
	for (size_t i = 0; i < GS_ARRAY_LEN(rules_before); i++)
		health_write_rule(out, &rules_before[i]);
	for (size_t i = 0; i < GS_ARRAY_LEN(gpu_rules); i++)
		health_write_rule(
			out, &(struct health_rule){
				     gpu_rules[i].alert, gpu_rules[i].expression, gpu_rules[i].hold,
				     gs_gpu_severity_name(
					     gs_gpu_condition_severity(gpu_rules[i].condition)),
				     gpu_rules[i].summary,
				     gs_gpu_condition_advice(gpu_rules[i].condition)});
	for (size_t i = 0; i < GS_ARRAY_LEN(rules_after); i++)
		health_write_rule(out, &rules_after[i]);
	return ferror(out) ? -EIO : 0;
}
