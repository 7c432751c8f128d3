/* Maps a library as a dynamic loader does, which loses its processor for a second when the code is there
 * and the variables are not. */
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096ul

static void map(char *base, const Elf64_Phdr *p, int fd)
{
	unsigned long skip = p->p_vaddr % PAGE, end = skip + p->p_filesz;
	int prot = (p->p_flags & PF_R ? PROT_READ : 0) | (p->p_flags & PF_W ? PROT_WRITE : 0) |
		   (p->p_flags & PF_X ? PROT_EXEC : 0);

	mmap(base + p->p_vaddr - skip, end, prot, MAP_PRIVATE | MAP_FIXED, fd,
	     (long)(p->p_offset - skip));
}

int main(int argc, char **argv)
{
	int fd = argc > 1 ? open(argv[1], O_RDONLY) : -1;
	unsigned long bytes = 0;
	Elf64_Phdr header[64];
	Elf64_Ehdr file;
	char *base;

	if (pread(fd, &file, sizeof(file), 0) != sizeof(file) || file.e_phnum > 64 ||
	    pread(fd, header, file.e_phnum * sizeof(*header), (long)file.e_phoff) < 0)
		return 1;
	for (int i = 0; i < file.e_phnum; i++)
		if (header[i].p_type == PT_LOAD)
			bytes = header[i].p_vaddr + header[i].p_memsz;
	base = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	if (base == MAP_FAILED)
		return 1;
	for (int i = 0; i < file.e_phnum; i++) {
		if (header[i].p_type != PT_LOAD)
			continue;
		map(base, &header[i], fd);
		if (header[i].p_flags & PF_X)
			sleep(1);
	}
	puts("mapped");
	fflush(stdout);
	sleep(argc > 2 ? 600 : 1);
	return 0;
}
