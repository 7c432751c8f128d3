/* What probes do on this machine, for who shows it. */
#ifndef GS_SOURCES_UPROBE_FEATURES_H
#define GS_SOURCES_UPROBE_FEATURES_H

#include <stdbool.h>

struct gs_uprobe_tried {
	bool single;       /* uprobes as perf events are there, one by one */
	bool done;         /* the rest is known: it needs CAP_BPF and CAP_PERFMON */
	bool harmless;     /* a function of ours did under a probe what it did without */
	bool returns_kept; /* return probes leave return addresses as they are */
};

/* By probes on functions of our own, in a child process; once, some 20 to 200 ms. */
void gs_uprobe_try(struct gs_uprobe_tried *ret);

#endif
