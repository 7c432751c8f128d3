#include "companion/nccl/layout.h"

#define NCCL_PLACE(field, bytes, ...) [NCCL_##field] = {bytes, {__VA_ARGS__}},
const struct nccl_place nccl_place[NCCL_N_FIELDS] = {NCCL_FIELDS(NCCL_PLACE)};
