"""Two ranks of NCCL on a machine with one GPU. NCCL refuses two ranks of one host on one GPU ("Duplicate GPU detected"), so each is
given a host of its own (NCCL_HOSTID): they talk over sockets as two nodes do, and their kernels take turns on the GPU."""
import os


def choose_device(torch, rank):
    """The device of a rank, which is the current one from now on; before NCCL is initialised."""
    n = torch.cuda.device_count()
    if n == 1:
        os.environ.update(NCCL_HOSTID=f"gpuscope-{rank}", NCCL_SOCKET_IFNAME="lo", NCCL_IB_DISABLE="1")
    torch.cuda.set_device(rank % n)
    return rank % n
