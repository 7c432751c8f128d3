"""Two ranks that send each other eight bytes for ever."""

from mpi4py import MPI

rank, word = MPI.COMM_WORLD.Get_rank(), bytearray(8)
while True:
    if rank == 0:
        MPI.COMM_WORLD.Send(word, 1)
    MPI.COMM_WORLD.Recv(word, 1 - rank)
    if rank == 1:
        MPI.COMM_WORLD.Send(word, 0)
