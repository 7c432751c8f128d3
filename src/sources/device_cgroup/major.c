/* Which character devices are NVIDIA's: /proc/devices lists each driver with its major number, most
 * of which (nvidia-uvm, nvidia-caps, nvidia-nvswitch, ...) the kernel gives out when it is loaded. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "sources/device_cgroup/device_int.h"

#define MAJOR_MAX 4095 /* 12 bits of dev_t in the kernel */

static bool is_driver_name(const char *name, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)name[i]) && !strchr("-_.", name[i]))
			return false;
	return len >= 6 && memcmp(name, "nvidia", 6) == 0;
}

static void add_driver(struct device_drivers *drivers, uint32_t major, const char *name, size_t len)
{
	struct device_driver *d = &drivers->driver[drivers->n];

	if (drivers->n == DEVICE_RULES_MAX || len >= sizeof(d->name))
		return;
	d->major = major;
	memcpy(d->name, name, len);
	d->name[len] = '\0';
	drivers->n++;
}

void device_parse_drivers(const char *text, struct device_drivers *ret)
{
	bool character = false;

	ret->n = 0;
	for (const char *line = text; *line;) {
		size_t len = strcspn(line, "\n"), at = 0, name;
		uint32_t major = 0;

		if (len >= 9 && memcmp(line, "Character", 9) == 0)
			character = true;
		else if (len >= 5 && memcmp(line, "Block", 5) == 0)
			character = false;
		while (at < len && line[at] == ' ')
			at++;
		for (name = at; name < len && name < at + 6 && isdigit((unsigned char)line[name]);)
			major = major * 10 + (uint32_t)(line[name++] - '0');
		if (character && name > at && name < len && line[name] == ' ' &&
		    major <= MAJOR_MAX && is_driver_name(line + name + 1, len - name - 1))
			add_driver(ret, major, line + name + 1, len - name - 1);
		line += len + (line[len] == '\n');
	}
}

bool device_is_major(const struct device_drivers *drivers, uint32_t major)
{
	for (unsigned i = 0; i < drivers->n; i++)
		if (drivers->driver[i].major == major)
			return true;
	return false;
}

static bool has_rule(const struct device_rules *rules, uint32_t major, uint32_t minor)
{
	for (unsigned i = 0; i < rules->n; i++)
		if (rules->rule[i].major == major &&
		    (rules->rule[i].minor == minor || rules->rule[i].minor == DEVICE_ANY_MINOR))
			return true;
	return false;
}

bool device_add_rule(struct device_rules *rules, uint32_t major, uint32_t minor)
{
	if (has_rule(rules, major, minor))
		return true;
	if (rules->n == DEVICE_RULES_MAX)
		return false;
	rules->rule[rules->n++] = (struct device_rule){major, minor};
	return true;
}

bool device_covers_rules(const struct device_rules *those, const struct device_rules *these)
{
	for (unsigned i = 0; i < these->n; i++)
		if (!has_rule(those, these->rule[i].major, these->rule[i].minor))
			return false;
	return true;
}

void device_print_rules(const struct device_rules *rules, char *out, size_t bytes)
{
	size_t at = 0;

	out[0] = '\0';
	for (unsigned i = 0; i < rules->n && at < bytes; i++) {
		const struct device_rule *r = &rules->rule[i];

		if (r->minor == DEVICE_ANY_MINOR)
			at += (size_t)snprintf(out + at, bytes - at, "%s%u:*", i ? " " : "",
					       r->major);
		else
			at += (size_t)snprintf(out + at, bytes - at, "%s%u:%u", i ? " " : "",
					       r->major, r->minor);
	}
}
