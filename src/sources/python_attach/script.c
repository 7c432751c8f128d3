/*
 * What the interpreter is asked to run: it calls the library, which it loads when that is not there yet. Nothing of it stays, no
 * exception leaves it, and what it calls fails in every case (companion/python/late.c). Where even loading fails, the folder
 * gets the reason.
 */
#include <errno.h>

#include "model/companion/file.h"
#include "sources/python_attach/python_attach.h"

static bool is_plain(const char *path)
{
	for (; *path; path++)
		if (*path == '\'' || *path == '\\' || (unsigned char)*path < ' ')
			return false;
	return true;
}

int gs_python_attach_write_begin(struct gs_buf *out, const char *library, const char *folder,
				 pid_t pid, bool follows)
{
	if (!is_plain(library) || !is_plain(folder))
		return -EINVAL;
	return gs_buf_printf(
		out,
		"try:\n"
		"    import _imp\n"
		"    try:\n"
		"        run = _imp._gpuscope\n"
		"    except AttributeError:\n"
		"        def run(): pass\n"
		"        run.name, run.origin = 'gpuscope_companion_python', '%s'\n"
		"        try:\n"
		"            _imp.create_dynamic(run)\n"
		"        except StopIteration:\n"
		"            pass\n"
		"        run = _imp._gpuscope\n"
		"    run(b'%s', %d, %d)\n"
		"except StopIteration:\n"
		"    pass\n"
		"except BaseException as error:\n"
		"    try:\n"
		"        import posix\n"
		"        file = posix.open('%s/" GS_COMPANION_LATE_NAME
		"', posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_CLOEXEC, 0o600)\n"
		"        posix.write(file, f'cannot load the library: {error}'.encode('utf-8', 'replace')[:180] + b'\\n')\n"
		"        posix.close(file)\n"
		"    except BaseException:\n"
		"        pass\n",
		library, folder, (int)pid, follows, folder);
}

int gs_python_attach_write_end(struct gs_buf *out, pid_t pid)
{
	return gs_buf_printf(out,
			     "try:\n"
			     "    import _imp\n"
			     "    _imp._gpuscope(b'', %d, 0)\n"
			     "except BaseException:\n"
			     "    pass\n",
			     (int)pid);
}
