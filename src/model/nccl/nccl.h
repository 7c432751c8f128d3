/* What NCCL says of itself: numbers that cross from traced programs to records. They are stored. */
#ifndef GS_MODEL_NCCL_NCCL_H
#define GS_MODEL_NCCL_NCCL_H

#define GS_NCCL_ABI_MAX                                                                            \
	6 /* versions of the interface for profilers (plugin/profiler/profiler_vN.h) */

enum gs_nccl_comm_what {
	GS_NCCL_COMM_BEGUN = 1,
	GS_NCCL_COMM_ENDED = 2,
	GS_NCCL_COMM_NO_WINDOWS =
		3, /* begun; channels are not looked at: this NCCL would mistake them */
};

enum gs_nccl_op_what {
	GS_NCCL_COLLECTIVE = 1,
	GS_NCCL_TRANSFER = 2,    /* send or receive */
	GS_NCCL_COPY_ENGINE = 3, /* a collective by copies, without a kernel */
	GS_NCCL_OP_KINDS
};

enum gs_nccl_channel_what {
	GS_NCCL_CHANNEL_KERNEL = 1,
	GS_NCCL_CHANNEL_PROXY = 2,
	GS_NCCL_CHANNEL_KINDS
};

#endif
