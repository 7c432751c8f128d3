/* The second static function of the name "twin". */
static __attribute__((noinline, noclone, used)) int twin(int n)
{
	__asm__ volatile("" : : "r"(&n) : "memory");
	return n + 2;
}

int twin_of_other_file(int n);

int twin_of_other_file(int n)
{
	return twin(n);
}
