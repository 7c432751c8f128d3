! Known calls of MPI by a program in Fortran, whose calls reach the library through wrappers: 7 sends of 10
! doubles to the right and receives from the left, 5 sums of 3 doubles, 2 barriers, 3 broadcasts of 4 integers.
program known_count
  use mpi
  implicit none
  integer :: ierr, rank, n_ranks, right, left, i, request
  integer :: status(MPI_STATUS_SIZE), words(4)
  double precision :: a(10), b(10)

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, n_ranks, ierr)
  right = mod(rank + 1, n_ranks)
  left = mod(rank + n_ranks - 1, n_ranks)
  a = rank
  words = 0
  do i = 1, 7
    call MPI_Isend(a, 10, MPI_DOUBLE_PRECISION, right, 1, MPI_COMM_WORLD, request, ierr)
    call MPI_Recv(b, 10, MPI_DOUBLE_PRECISION, left, 1, MPI_COMM_WORLD, status, ierr)
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
  end do
  do i = 1, 5
    call MPI_Allreduce(a, b, 3, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
  end do
  do i = 1, 2
    call MPI_Barrier(MPI_COMM_WORLD, ierr)
  end do
  do i = 1, 3
    call MPI_Bcast(words, 4, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
  end do
  call MPI_Finalize(ierr)
end program known_count
