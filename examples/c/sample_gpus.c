/*
 * Prints the GPUs of this machine, the processes on them and the machine itself, once a second.
 *
 *     cc sample_gpus.c $(pkg-config --cflags --libs libgpuscope) -o sample_gpus
 *     ./sample_gpus [TIMES [MILLISECONDS]]
 *
 * Environment variables: NVML is the path of NVIDIA's library, if not the usual one; JSON=1 also prints the last sample as
 * `gpuscope gpu --format json` does.
 */
#include <gpuscope/gpuscope.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void print_sample(const struct gs_sample *s)
{
	if (s->state_text[0])
		printf("%s: %s\n", s->state, s->state_text);
	for (size_t i = 0; i < s->n_devices; i++) {
		const struct gs_device *d = s->devices[i];

		printf("gpu %" PRIu32
		       " %s sm=%.3f memory=%.0f/%.0f enc=%.3f dec=%.3f temp=%.0f fan=%.2f power=%.1f/%.1f\n",
		       d->index, d->name, d->utilization_ratio, d->memory_used_bytes,
		       d->memory_total_bytes, d->encoder_ratio, d->decoder_ratio,
		       d->temperature_celsius, d->fan_ratio, d->power_watts, d->power_limit_watts);
	}
	for (size_t i = 0; i < s->n_device_processes; i++) {
		const struct gs_device_process *p = s->device_processes[i];

		printf("process %" PRIu32 " %s gpu=%" PRIu32 " bytes=%" PRId64
		       " sm=%.3f memory=%.3f enc=%.3f dec=%.3f\n",
		       p->pid, p->comm, p->gpu_index, p->used_bytes, p->sm_ratio, p->memory_ratio,
		       p->encoder_ratio, p->decoder_ratio);
	}
	if (s->machine)
		printf("machine %s cpus=%" PRId32 " cpu=%.3f memory=%" PRId64 "/%" PRId64 "\n",
		       s->host, s->machine->n_cpus, s->machine->cpu_ratio,
		       s->machine->memory_used_bytes, s->machine->memory_total_bytes);
}

/* Every value that the driver reports. */
static void print_values(const struct gs_sample *s)
{
	for (size_t i = 0; i < s->n_devices; i++)
		for (uint32_t k = 0; k < s->devices[i]->n_values; k++)
			if (s->devices[i]->values[k] == s->devices[i]->values[k]) /* no NAN */
				printf("value %" PRIu32 " %s %g\n", s->devices[i]->index,
				       gs_device_key(k), s->devices[i]->values[k]);
}

int main(int argc, char **argv)
{
	int times = argc > 1 ? atoi(argv[1]) : 3, ms = argc > 2 ? atoi(argv[2]) : 1000, r;
	struct gs_monitor_options options;
	struct gs_monitor *monitor = NULL;
	const struct gs_sample *sample = NULL;
	const char *json = NULL;
	struct timespec pause;

	memset(&options, 0, sizeof(options));
	options.size = sizeof(options);
	options.flags = GS_MONITOR_HOST | GS_MONITOR_NAMES;
	options.nvml_path = getenv("NVML");
	pause.tv_sec = ms / 1000;
	pause.tv_nsec = ms % 1000 * 1000000L;
	r = gs_monitor_new(&monitor);
	if (r == 0)
		r = gs_monitor_open(monitor, &options);
	for (int i = 0; i < times && r == 0; i++) {
		if (i)
			nanosleep(&pause, NULL);
		r = gs_monitor_read(monitor, &sample);
		if (r == 0)
			print_sample(sample);
	}
	if (r == 0 && sample)
		print_values(sample);
	if (r == 0 && getenv("JSON") && (r = gs_monitor_json(monitor, &json, NULL)) == 0)
		printf("%s\n", json);
	if (r < 0)
		fprintf(stderr, "%s\n", gs_monitor_error(monitor));
	gs_monitor_free(monitor);
	return r < 0;
}
